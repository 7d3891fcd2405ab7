/*
 * An approval that is killed, or finds the disk full, at every single call that changes something, or no descriptor at every single one that
 * opens something: afterwards the project is as before or as after, whole, and the next run goes on. The calls are counted where they are
 * made, so no point can be forgotten; with AGENTFENSE_LONG=1 each has its turn, otherwise every seventh. The same for both bases: with
 * OVER_CODEBASE approvals become versions.
 */
#include "review/approve.h"

#include "review_fixture.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/coverage.h"
#include "base/id.h"
#include "base/log.h"
#include "review/undo.h"

enum trouble { NONE, KILL, FULL_ONCE, FULL_FROM, SAVE, NO_FDS_ONCE, NO_FDS_FROM };

static struct {
    enum trouble trouble;
    long at, calls;
    const char *saved; /* what its owner saves at that moment */
} faults;

static void save(const char *path)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

    if (fd >= 0) {
        (void) !pwritev(fd, &(struct iovec){ (void *) (uintptr_t) "saved\n", 6 }, 1, 0);
        close(fd);
    }
}

static bool is_about_fds(void)
{
    return faults.trouble == NO_FDS_ONCE || faults.trouble == NO_FDS_FROM;
}

/* Whether there is no descriptor for it. */
static bool strikes_open(void)
{
    long call = is_about_fds() ? ++faults.calls : 0;
    bool short_of = is_about_fds() && (faults.trouble == NO_FDS_ONCE ? call == faults.at : call >= faults.at);

    if (short_of)
        errno = EMFILE;
    return short_of;
}

/* Whether the call fails. Removing and renaming need no room. */
static bool strikes(bool needs_room)
{
    if (is_about_fds())
        return false;
    long call = ++faults.calls;

    if (faults.trouble == KILL && call == faults.at) {
        coverage_save();
        kill(getpid(), SIGKILL);
    }
    if (faults.trouble == SAVE && call == faults.at)
        save(faults.saved);
    bool full = needs_room &&
                ((faults.trouble == FULL_ONCE && call == faults.at) || (faults.trouble == FULL_FROM && call >= faults.at));
    if (full)
        errno = ENOSPC;
    return full;
}

#define WRAP(type, name, room, params, args)                                                                                   \
    type __real_##name params;                                                                                                 \
    type __wrap_##name params;                                                                                                 \
    type __wrap_##name params                                                                                                  \
    {                                                                                                                          \
        return strikes(room) ? (type) -1 : __real_##name args;                                                                 \
    }

WRAP(int, renameat, false, (int a, const char *b, int c, const char *d), (a, b, c, d))
WRAP(int, renameat2, false, (int a, const char *b, int c, const char *d, unsigned e), (a, b, c, d, e))
WRAP(int, unlinkat, false, (int a, const char *b, int c), (a, b, c))
WRAP(int, mkdirat, true, (int a, const char *b, mode_t c), (a, b, c))
WRAP(int, linkat, true, (int a, const char *b, int c, const char *d, int e), (a, b, c, d, e))
WRAP(int, symlinkat, true, (const char *a, int b, const char *c), (a, b, c))
WRAP(int, fchmod, false, (int a, mode_t b), (a, b))
WRAP(int, chmod, false, (const char *a, mode_t b), (a, b))
WRAP(int, fchown, false, (int a, uid_t b, gid_t c), (a, b, c))
WRAP(ssize_t, write, true, (int a, const void *b, size_t c), (a, b, c))
WRAP(ssize_t, pwrite64, true, (int a, const void *b, size_t c, off_t d), (a, b, c, d))
WRAP(ssize_t, copy_file_range, true, (int a, off_t *b, int c, off_t *d, size_t e, unsigned f), (a, b, c, d, e, f))

/* Nobody cuts the power here: it is enough that they can fail. */
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);

int __wrap_fsync(int fd)
{
    (void) fd;
    return strikes(true) ? -1 : 0;
}

int __wrap_fdatasync(int fd)
{
    return __wrap_fsync(fd);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    struct {
        uint64_t flags, mode, resolve;
    } *how = (void *) (uintptr_t) c;

    if (number == SYS_openat2 && (strikes_open() || ((how->flags & O_CREAT) && strikes(true))))
        return -1;
    return __real_syscall(number, a, b, c, d, e, f);
}

#define WRAP_OPEN(name, params, args)                                                                                          \
    int __real_##name params;                                                                                                  \
    int __wrap_##name params;                                                                                                  \
    int __wrap_##name params                                                                                                   \
    {                                                                                                                          \
        return strikes_open() ? -1 : __real_##name args;                                                                       \
    }

WRAP_OPEN(open64, (const char *a, int b, mode_t c), (a, b, c))
WRAP_OPEN(openat64, (int a, const char *b, int c, mode_t d), (a, b, c, d))

/* Every call, or every seventh. */
static long step(void)
{
    return full_or_share(1, 7);
}

/* ---- what the project is ---- */

struct tree {
    struct buf text;
    int dirfd;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

static int on_entry(const struct file_entry *entry, void *cookie)
{
    struct tree *tree = cookie;
    autodone(file_state) struct file_state file_state = FILE_STATE_NONE;

    /* Staged, or aside: it goes when the next run begins. */
    if (id_is_valid(FILE_TEMP_PREFIX, entry->name))
        return FILE_WALK_SKIP;
    assert_int_equal(file_state_read(entry->dirfd, entry->name, &file_state), 0);
    buf_addf(&tree->text, "%s %o ", entry->path, entry->st->st_mode);
    buf_add_escaped(&tree->text, file_state.bytes.data ? file_state.bytes.data : "", file_state.bytes.len);
    buf_add_char(&tree->text, '\n');
    return FILE_WALK_ON;
}

/* Its lines, sorted; free it. */
static char *look(struct world *w)
{
    struct tree tree = { 0 };
    struct err err = ERR_NONE;
    char *lines[200], *save = NULL;
    size_t count = 0;
    autodone(buf) struct buf out = BUF_EMPTY;

    assert_int_equal(file_walk(w->f.fd, BASE_DIR, on_entry, &tree, &err), 0);
    for (char *line = strtok_r(tree.text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        lines[count++] = line;
    qsort(lines, count, sizeof(*lines), by_text);
    for (size_t i = 0; i < count; i++)
        buf_addf(&out, "%s\n", lines[i]);
    buf_done(&tree.text);
    return buf_dup_take(&out);
}

static int on_left(const struct file_entry *entry, void *cookie)
{
    *(size_t *) cookie += id_is_valid(FILE_TEMP_PREFIX, entry->name);
    return FILE_WALK_ON;
}

static void assert_tidy(struct world *w)
{
    struct err err = ERR_NONE;
    size_t left = 0;

    assert_int_equal(file_walk(w->f.fd, BASE_DIR, on_left, &left, &err), 0);
    assert_int_equal(left, 0);
}

/* A busy agent in a live base whose owner was busy too: something merges. */
static void set_up(struct world *w)
{
    base_put(w, "both", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    a_busy_agent(w);
    agent_start(w, (const char *const[]){ "**=write", NULL }, true);
    agent_write(w, "both", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    agent_end(w);
    base_put(w, "both", "one\n2\n3\n4\n5\n6\n7\n8\n9\n");
}

#define OWED "row\0of\0something"

static void owe(const struct approve *approve, struct buf *out, void *cookie)
{
    (void) cookie;
    assert_true(approve->taken_count > 0);
    buf_add(out, OWED, sizeof(OWED));
}

static int approve_all(struct world *w, struct approve *approve, struct err *err)
{
    return approve_run(w->delta, &decided_all, &(struct approve_options){ .owe = owe, .codebase = lands_in(w) }, approve, err);
}

static int on_owed(const char *id, const struct apply_txn_record *record, void *cookie, struct err *err)
{
    char *ret_id = cookie;

    (void) err;
    assert_int_equal(*ret_id, 0);
    assert_int_equal(record->follow_up.len, sizeof(OWED));
    assert_memory_equal(record->follow_up.data, OWED, sizeof(OWED));
    snprintf(ret_id, ID_TEXT_MAX, "%s", id);
    return 0;
}

/* Whoever looks after a kill finds what is owed for what was written, once, until it is closed. */
static void pay(struct world *w, bool is_owed, long at)
{
    struct err err = ERR_NONE;
    char id[ID_TEXT_MAX] = "", again[ID_TEXT_MAX] = "";

    assert_int_equal(approve_recover(w->delta, false, lands_in(w), &err), 0);
    assert_int_equal(approve_each_follow_up(w->delta, on_owed, id, &err), 0);
    if (is_owed != (*id != 0))
        fail_msg("at call %ld a follow-up is %s", at, *id ? "there, and nothing was written" : "lost");
    if (!is_owed)
        return;
    assert_int_equal(approve_has_unfinished(w->delta, &err), 1);
    assert_int_equal(approve_close(w->delta, id, &err), 0);
    assert_int_equal(approve_close(w->delta, id, &err), 0);
    assert_int_equal(approve_each_follow_up(w->delta, on_owed, again, &err), 0);
    assert_string_equal(again, "");
    assert_int_equal(approve_has_unfinished(w->delta, &err), 0);
    assert_int_equal(approve_was_done(w->delta, id, &err), 1);
}

struct outcomes {
    char *old, *new; /* owned */
};

static void learn(struct outcomes *ret)
{
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;
    void *state = NULL;

    world_setup(&state);
    set_up(state);
    ret->old = look(state);
    if (approve_all(state, &approve, &err) != 0)
        fail_msg("%s", err.text);
    ret->new = look(state);
    assert_string_not_equal(ret->old, ret->new);
    assert_tidy(state);
    world_teardown(&state);
}

/* In a child: the parent must not be killed, and counts from nothing. 0: it was done, 1: it was refused. */
static int run_with(struct world *w, enum trouble trouble, long at, const char *undo_id)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        autodone(approve) struct approve approve = APPROVE_NONE;
        autodone(undo) struct undo undo = UNDO_NONE;
        struct err err = ERR_NONE;
        faults.trouble = trouble;
        faults.at = at;
        faults.calls = 0;
        int r = undo_id ? undo_run(w->delta, undo_id, &(struct undo_options){ .codebase = lands_in(w) }, &undo, &err)
                        : approve_all(w, &approve, &err);
        faults.trouble = NONE;
        /* 2: never struck. */
        coverage_exit(faults.calls < at ? 2 : r == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        return -WTERMSIG(status);
    return WEXITSTATUS(status);
}

/* Each line of what is there is a line of the old or of the new: no file is half of anything. */
static void assert_mixture(const char *is, const struct outcomes *o, long at)
{
    autofree char *copy = xdup(is);
    char *save = NULL;

    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        autofree char *whole = xprintf("%s\n", line);
        if (!strstr(o->old, whole) && !strstr(o->new, whole))
            fail_msg("at call %ld there is: %s", at, line);
    }
}

static void assert_one_of(struct world *w, const struct outcomes *o, long at)
{
    autofree char *is = look(w);

    if (strcmp(is, o->old) != 0 && strcmp(is, o->new) != 0)
        fail_msg("at call %ld the project is\n%s", at, is);
    assert_tidy(w);
}

static void finish(struct world *w, const struct outcomes *o, long at)
{
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;
    autofree char *is = NULL;

    if (approve_all(w, &approve, &err) != 0)
        fail_msg("at call %ld: %s", at, err.text);
    is = look(w);
    assert_string_equal(is, o->new);
    assert_tidy(w);
}

static void killed_at_any_call_it_is_old_or_new(void **state)
{
    struct outcomes o;
    long killed = 0;

    (void) state;
    learn(&o);
    for (long at = 1;; at += step()) {
        void *inner = NULL;
        struct err err = ERR_NONE;
        world_setup(&inner);
        struct world *w = inner;
        set_up(w);
        int r = run_with(w, KILL, at, NULL);
        autofree char *is = look(w);
        assert_mixture(is, &o, at);
        if (approve_recover(w->delta, false, lands_in(w), &err) < 0)
            fail_msg("at call %ld: %s", at, err.text);
        assert_one_of(w, &o, at);
        autofree char *later = look(w);
        pay(w, strcmp(later, o.new) == 0, at);
        finish(w, &o, at);
        world_teardown(&inner);
        killed += r == -SIGKILL;
        if (r != -SIGKILL)
            break;
    }
    print_message("killed at %ld calls\n", killed);
    assert_true(killed * step() > 100);
    free(o.old);
    free(o.new);
}

/* What was reported as failed has not happened and does not happen later; what was reported as done has. Without descriptors nothing can be
 * put back either: that is done by the next one who has some. */
static void in_trouble(enum trouble trouble)
{
    struct outcomes o;
    long refused = 0, done = 0;

    learn(&o);
    for (long at = 1;; at += step()) {
        void *inner = NULL;
        struct err err = ERR_NONE;
        world_setup(&inner);
        struct world *w = inner;
        set_up(w);
        int r = run_with(w, trouble, at, NULL);
        const char *expected = r == 1 ? o.old : o.new;
        autofree char *is = look(w);
        /* A version that could be neither finished nor undone is finished by who comes next. */
        if ((trouble == NO_FDS_FROM && r == 1) || w->cb)
            assert_mixture(is, &o, at);
        else if (strcmp(is, expected) != 0)
            fail_msg("at call %ld, answered %d, the project is\n%s\nand not\n%s", at, r, is, expected);
        assert_int_equal(approve_recover(w->delta, false, lands_in(w), &err), 0);
        autofree char *later = look(w);
        if (strcmp(later, expected) != 0)
            fail_msg("at call %ld, answered %d, the project becomes\n%s\nand not\n%s", at, r, later, expected);
        pay(w, r != 1, at);
        assert_tidy(w);
        finish(w, &o, at);
        world_teardown(&inner);
        refused += r == 1;
        done += r == 0;
        if (r == 2)
            break;
    }
    print_message("refused at %ld calls, done in spite of it at %ld\n", refused, done);
    assert_true(refused * step() > 20);
    free(o.old);
    free(o.new);
}

static void one_write_that_finds_no_room_changes_nothing(void **state)
{
    (void) state;
    in_trouble(FULL_ONCE);
}

static void a_disk_that_stays_full_changes_nothing(void **state)
{
    (void) state;
    in_trouble(FULL_FROM);
}

static void one_descriptor_that_is_not_there_changes_nothing(void **state)
{
    (void) state;
    in_trouble(NO_FDS_ONCE);
}

/* Also what it has staged can be taken away only later: it must be known until then. */
static void having_no_descriptors_any_more_changes_nothing(void **state)
{
    (void) state;
    in_trouble(NO_FDS_FROM);
}

#ifndef OVER_CODEBASE
/* Whenever its owner saves a file that is being replaced, deleted or moved, what was saved is there in the end, and the rest of the project is
 * old or new. */
static void assert_saved(const char *path)
{
    struct outcomes o;
    long refused = 0, done = 0;

    learn(&o);
    for (long at = 1;; at += step()) {
        void *inner = NULL;
        struct err err = ERR_NONE;
        world_setup(&inner);
        struct world *w = inner;
        set_up(w);
        autofree char *full = xprintf("%s/%s", w->base, path);
        autofree char *mine = xprintf("%s 100644 saved", path);
        faults.saved = full;
        int r = run_with(w, SAVE, at, NULL);
        assert_int_equal(approve_recover(w->delta, false, lands_in(w), &err), 0);
        autofree char *is = look(w);
        if (r != 2 && base_has(w, path) && !strstr(is, mine))
            fail_msg("at call %ld, answered %d, what was saved is lost:\n%s", at, r, is);
        if (r == 1 && !strstr(is, mine))
            fail_msg("at call %ld it was refused, and what was saved is gone", at);
        /* One file of each that is not the one. */
        assert_base(w, "over", r == 1 ? "old\n" : "new\n");
        assert_int_equal(base_has(w, "n"), r != 1);
        assert_tidy(w);
        world_teardown(&inner);
        refused += r == 1;
        done += r == 0;
        if (r == 2)
            break;
    }
    print_message("%s: refused at %ld calls, done at %ld\n", path, refused, done);
    assert_true(refused * step() > 20 && done * step() > 5);
    free(o.old);
    free(o.new);
}

static void what_is_saved_meanwhile_is_never_lost(void **state)
{
    (void) state;
    assert_saved("a");
    assert_saved("b");
}
#endif

/* What was approved is undone with trouble, and then recovered without; what run_with() says. */
static int undo_in_trouble(struct world *w, enum trouble trouble, long at)
{
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    set_up(w);
    assert_int_equal(approve_all(w, &approve, &err), 0);
    int r = run_with(w, trouble, at, approve.id);
    if (approve_recover(w->delta, false, lands_in(w), &err) < 0)
        fail_msg("at call %ld: %s", at, err.text);
    return r;
}

/* An undo is a landing as well: the same must hold. */
static void an_undo_killed_at_any_call_is_done_or_not(void **state)
{
    struct outcomes o;
    long killed = 0;

    (void) state;
    learn(&o);
    for (long at = 1;; at += step()) {
        void *inner = NULL;
        world_setup(&inner);
        struct world *w = inner;
        int r = undo_in_trouble(w, KILL, at);
        assert_one_of(w, &o, at);
        finish(w, &o, at);
        world_teardown(&inner);
        killed += r == -SIGKILL;
        if (r != -SIGKILL) {
            assert_true(r == 2);
            break;
        }
    }
    print_message("killed at %ld calls\n", killed);
    assert_true(killed * step() > 100);
    free(o.old);
    free(o.new);
}

static void an_undo_without_descriptors_is_done_or_not(void **state)
{
    struct outcomes o;
    long refused = 0;

    (void) state;
    learn(&o);
    for (long at = 1;; at += step()) {
        void *inner = NULL;
        world_setup(&inner);
        struct world *w = inner;
        int r = undo_in_trouble(w, NO_FDS_FROM, at);
        autofree char *is = look(w);
        if (strcmp(is, r == 1 ? o.new : o.old) != 0)
            fail_msg("at call %ld, answered %d, the project becomes\n%s", at, r, is);
        assert_tidy(w);
        finish(w, &o, at);
        world_teardown(&inner);
        refused += r == 1;
        if (r == 2)
            break;
    }
    print_message("refused at %ld calls\n", refused);
    assert_true(refused * step() > 100);
    free(o.old);
    free(o.new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_any_call_it_is_old_or_new),
        cmocka_unit_test(one_write_that_finds_no_room_changes_nothing),
        cmocka_unit_test(a_disk_that_stays_full_changes_nothing),
        cmocka_unit_test(one_descriptor_that_is_not_there_changes_nothing),
        cmocka_unit_test(having_no_descriptors_any_more_changes_nothing),
#ifndef OVER_CODEBASE /* whose files nobody saves over */
        cmocka_unit_test(what_is_saved_meanwhile_is_never_lost),
#endif
        cmocka_unit_test(an_undo_killed_at_any_call_is_done_or_not),
        cmocka_unit_test(an_undo_without_descriptors_is_done_or_not),
    };

    use_memory();
    log_set_level(LOG_LEVEL_ERROR); /* a codebase tells of what it could not finish */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
