#include "review/approve.h"

#include "review_fixture.h"

#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/xattr.h>

#include "base/coverage.h"
#include "base/id.h"
#include "review/undo.h"

/* All, or these paths. */
struct wanted {
    bool is_forced;
    const char *const *paths;
    size_t path_count;
};

static int try_approve(struct world *w, const struct wanted *wanted, struct approve *ret, struct err *err)
{
    autofree struct selection_file *files = xalloc((wanted->path_count + 1) * sizeof(*files));
    struct selection selection = { files, wanted->path_count };
    struct approve_options options = { .selection = &selection, .is_forced = wanted->is_forced, .codebase = lands_in(w) };

    for (size_t i = 0; i < wanted->path_count; i++)
        files[i].path = wanted->paths[i];
    return approve_run(w->delta, &decided_all, &options, ret, err);
}

static int count_temps(int dirfd)
{
    struct dirent **names = NULL;
    int count = scandirat(dirfd, ".", &names, NULL, alphasort), temps = 0;

    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        if (id_is_valid(FILE_TEMP_PREFIX, name))
            temps++;
        if (names[i]->d_type == DT_DIR && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            autofd int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            temps += fd < 0 ? 0 : count_temps(fd);
        }
        free(names[i]);
    }
    free(names);
    return temps;
}

/* Nothing temporary is left. */
static void assert_tidy(struct world *w)
{
    autofd int base = open(w->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(count_temps(base), 0);
}

static const struct approve_file *first_conflict(const struct approve *approve)
{
    for (size_t i = 0; approve->files && i < approve->edits.count; i++) {
        if (approve->files[i].outcome == APPROVE_CONFLICT)
            return &approve->files[i];
    }
    return NULL;
}

static const char *first_reason(const struct approve *approve)
{
    const struct approve_file *file = first_conflict(approve);

    return file ? file->reason : "";
}

static void must_approve(struct world *w)
{
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;
    int r = try_approve(w, &(struct wanted){ 0 }, &approve, &err);

    if (r != 0)
        fail_msg("%d: %s %s", r, err.text, first_reason(&approve));
    assert_int_equal(approve.taken_count, approve.edits.count);
    assert_edits(w, "");
    assert_tidy(w);
}

/* Nothing was written: `path` is among the conflicts, for a reason that has `word` in it. Then --force writes. */
static void assert_conflict(struct world *w, const char *path, const char *word)
{
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    assert_int_equal(try_approve(w, &(struct wanted){ 0 }, &approve, &err), 1);
    assert_int_equal(approve.conflict_count, 1);
    const struct approve_file *file = first_conflict(&approve);
    assert_string_equal(file->edit->path, path);
    if (!strstr(file->reason, word))
        fail_msg("'%s' has no '%s'", file->reason, word);
    assert_tidy(w);
}

static void force(struct world *w)
{
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    if (try_approve(w, &(struct wanted){ .is_forced = true }, &approve, &err) != 0)
        fail_msg("%s", err.text);
    assert_edits(w, "");
    assert_tidy(w);
}

/* Base times are those of the kernel's clock, which may lag behind by a tick. */
static void later(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
}

/* ---- what is written ---- */

static void every_kind_of_change_is_applied(void **state)
{
    struct world *w = *state;

    a_busy_agent(w);
    must_approve(w);
    assert_busy_work(w);
    must_approve(w); /* again: nothing to do */
    assert_busy_work(w);
}

/* As if somebody had made them here. What is there already has the mode that was shown. */
#ifndef OVER_CODEBASE
static void a_mask_limits_the_modes_of_what_is_new(void **state)
{
    struct world *w = *state;
    mode_t mask;

    base_put(w, "old", "o\n");
    base_put(w, "content", "o\n");
    agent_begin(w);
    agent_mkdir(w, "d");
    agent_create(w, "d/f", "f\n", 0666);
    agent_create(w, "g", "g\n", 0777);
    agent_chmod(w, "old", 0666);
    agent_write(w, "content", "c\n");
    agent_end(w);
    mask = umask(077);
    must_approve(w);
    umask(mask);
    assert_int_equal(base_mode(w, "d"), S_IFDIR | 0700);
    assert_int_equal(base_mode(w, "d/f"), S_IFREG | 0600);
    assert_int_equal(base_mode(w, "g"), S_IFREG | 0700);
    assert_int_equal(base_mode(w, "old"), S_IFREG | 0666);
    assert_int_equal(base_mode(w, "content"), S_IFREG | 0644);
}
#endif

/* Whether we may read a file of our own that has this mode: root may. */
static bool may_read(mode_t mode)
{
    return geteuid() == 0 || mode & S_IRUSR;
}

static void what_is_new_has_the_mode_that_is_shown(void **state)
{
    static const struct {
        const char *path;
        mode_t sandbox, project;
    } files[] = { { "a", 0666, 0644 }, { "b", 0777, 0755 }, { "c", 0600, 0600 }, { "d", 0640, 0640 },
                  { "e", 0, 0600 },    { "f", 0444, 0644 }, { "g", 0755, 0755 }, { "h", 0111, 0711 } };
    struct world *w = *state;
    mode_t mask = umask(0);

    agent_begin(w);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        agent_create(w, files[i].path, "x\n", 0644);
        if (may_read(files[i].sandbox))
            agent_chmod(w, files[i].path, files[i].sandbox);
    }
    agent_end(w);
    must_approve(w);
    umask(mask);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (may_read(files[i].sandbox))
            assert_int_equal(base_mode(w, files[i].path), S_IFREG | files[i].project);
    /* It stays in the delta, and is no change any more. */
    assert_edits(w, "");
}

/* What landed has less than the agent gave it: that is not the project's doing. */
static void a_mode_that_was_cut_is_no_conflict_later(void **state)
{
    struct world *w = *state;

    agent_begin(w);
    agent_create(w, "a", "x\n", 0666);
    agent_create(w, "b", "x\n", 0666);
    agent_end(w);
    must_approve(w);
    agent_begin(w);
    agent_chmod(w, "a", 0755);
    agent_write(w, "b", "y\n");
    agent_end(w);
    assert_edits(w, "mode a, modified b");
    must_approve(w);
    assert_int_equal(base_mode(w, "a"), S_IFREG | 0755);
    assert_int_equal(base_mode(w, "b"), S_IFREG | 0644);
    assert_base(w, "b", "y\n");
}

static void dangerous_bits_are_not_applied(void **state)
{
    struct world *w = *state;

    agent_begin(w);
    agent_create(w, "suid", "x\n", 0755);
    agent_mkdir(w, "d");
    agent_end(w);
    /* The fence gives no such bits; somebody else could. */
    assert_int_equal(fchmodat(w->f.fd, "delta/data/suid", 06755, 0), 0);
    assert_int_equal(fchmodat(w->f.fd, "delta/data/d", 07755, 0), 0);
    must_approve(w);
    assert_int_equal(base_mode(w, "suid"), S_IFREG | 0755);
    assert_int_equal(base_mode(w, "d"), S_IFDIR | 0755);
}

#ifndef OVER_CODEBASE
static void owners_are_those_of_the_base(void **state)
{
    struct world *w = *state;
    struct stat st;

    if (geteuid() != 0)
        skip();
    base_put(w, "old", "o\n");
    base_put(w, "d/x", "x\n");
    assert_int_equal(fchownat(w->f.fd, BASE_DIR "/old", 1234, 1235, 0), 0);
    assert_int_equal(fchownat(w->f.fd, BASE_DIR "/d", 2345, 2346, 0), 0);
    agent_begin(w);
    agent_write(w, "old", "changed\n");
    agent_create(w, "d/new", "n\n", 0644);
    agent_mkdir(w, "d/e");
    agent_create(w, "d/e/f", "f\n", 0644);
    agent_symlink(w, "x", "d/l");
    agent_end(w);
    must_approve(w);
    assert_int_equal(fstatat(w->f.fd, BASE_DIR "/old", &st, 0), 0);
    assert_int_equal(st.st_uid, 1234);
    assert_int_equal(st.st_gid, 1235);
    static const char *const new[] = { BASE_DIR "/d/new", BASE_DIR "/d/e", BASE_DIR "/d/e/f", BASE_DIR "/d/l" };
    for (size_t i = 0; i < ARRAY_LEN(new); i++) {
        assert_int_equal(fstatat(w->f.fd, new[i], &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(st.st_uid, 2345);
        assert_int_equal(st.st_gid, 2346);
    }
}
#endif

static void only_chosen_paths_are_applied(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE, none = APPROVE_NONE;
    struct err err = ERR_NONE;

    base_put(w, "a", "a\n");
    base_put(w, "b", "b\n");
    agent_begin(w);
    agent_write(w, "a", "changed\n");
    agent_write(w, "b", "changed\n");
    agent_mkdir(w, "n");
    agent_create(w, "n/x", "x\n", 0644);
    agent_create(w, "n/y", "y\n", 0644);
    agent_end(w);
    struct wanted options = { .paths = (const char *const[]){ "a", "n/x" }, .path_count = 2 };
    assert_int_equal(try_approve(w, &options, &approve, &err), 0);
    assert_base(w, "a", "changed\n");
    assert_base(w, "b", "b\n");
    assert_base(w, "n/x", "x\n");
    assert_false(base_has(w, "n/y"));
    assert_edits(w, "modified b, added n/y");
    options.paths = (const char *const[]){ "nowhere" };
    options.path_count = 1;
    assert_int_equal(try_approve(w, &options, &none, &err), -ENOENT);
    assert_non_null(strstr(err.text, "'nowhere'"));
    must_approve(w);
}

static void git_is_never_written(void **state)
{
    struct world *w = *state;

    base_put(w, ".git/config", "c\n");
    base_put(w, "sub/.git/HEAD", "h\n");
    base_put(w, "sub/f", "f\n");
    agent_begin(w);
    agent_write(w, ".git/config", "evil\n");
    agent_create(w, ".git/hook", "evil\n", 0755);
    agent_unlink(w, "sub/.git/HEAD");
    agent_rmdir(w, "sub/.git");
    agent_unlink(w, "sub/f");
    agent_rmdir(w, "sub");
    agent_mkdir(w, "n");
    agent_mkdir(w, "n/.git");
    agent_create(w, "n/.git/config", "evil\n", 0644);
    agent_create(w, "n/f", "f\n", 0644);
    agent_end(w);
    must_approve(w);
    assert_base(w, ".git/config", "c\n");
    assert_false(base_has(w, ".git/hook"));
    assert_base(w, "sub/.git/HEAD", "h\n");
    assert_false(base_has(w, "sub/f"));
    assert_base(w, "n/f", "f\n");
    assert_false(base_has(w, "n/.git"));
}

static void hidden_files_are_never_deleted(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    base_put(w, "d/a", "a\n");
    base_put(w, "d/secret.key", "s\n");
    base_put(w, "e/secret.key", "s\n");
    agent_start(w, (const char *const[]){ "**=write", "*.key=none@9", NULL }, false);
    agent_unlink(w, "d/a");
    agent_rmdir(w, "d");
    agent_rmdir(w, "e");
    agent_create(w, "e", "a file now\n", 0644);
    agent_end(w);
    assert_conflict(w, "e", "never saw");
    struct wanted options = { .is_forced = true };
    assert_int_equal(try_approve(w, &options, &approve, &err), 1); /* not even then */
    assert_base(w, "e/secret.key", "s\n");
    approve_done(&approve);
    options.paths = (const char *const[]){ "d" };
    options.path_count = 1;
    assert_int_equal(try_approve(w, &options, &approve, &err), 0);
    assert_false(base_has(w, "d/a"));
    assert_base(w, "d/secret.key", "s\n");
    assert_tidy(w);
}

/* ---- conflicts ---- */

static void a_file_changed_in_the_base_is_a_conflict(void **state)
{
    struct world *w = *state;

    base_put(w, "a", "a\n");
    base_put(w, "b", "b\n");
    agent_begin(w);
    agent_write(w, "a", "agent\n");
    agent_write(w, "b", "agent\n");
    agent_create(w, "c", "c\n", 0644);
    agent_end(w);
    base_put(w, "a", "o\n"); /* of the same length */
    assert_conflict(w, "a", "changed");
    assert_base(w, "a", "o\n");
    assert_base(w, "b", "b\n");
    assert_false(base_has(w, "c"));
    force(w);
    assert_base(w, "a", "agent\n");
    assert_base(w, "c", "c\n");
}

static void a_file_touched_in_the_base_is_none(void **state)
{
    struct world *w = *state;

    base_put(w, "a", "a\n");
    agent_begin(w);
    agent_write(w, "a", "agent\n");
    agent_end(w);
    later();
    base_put(w, "a", "a\n");
    must_approve(w);
    assert_base(w, "a", "agent\n");
}

static void a_file_the_owner_deleted_is_a_conflict(void **state)
{
    struct world *w = *state;

    base_put(w, "a", "a\n");
    agent_begin(w);
    agent_write(w, "a", "agent\n");
    agent_end(w);
    base_remove(w, "a");
    assert_conflict(w, "a", "deleted");
    assert_false(base_has(w, "a"));
    force(w);
    assert_base(w, "a", "agent\n");
}

static void a_file_both_made_is_a_conflict(void **state)
{
    struct world *w = *state;

    agent_begin(w);
    agent_create(w, "n", "agent\n", 0644);
    agent_create(w, "same", "same\n", 0644);
    agent_end(w);
    base_put(w, "n", "owner\n");
    base_put(w, "same", "same\n");
    assert_conflict(w, "n", "appeared");
    assert_base(w, "n", "owner\n");
    force(w);
    assert_base(w, "n", "agent\n");
}

static void a_deleted_file_that_changed_is_a_conflict(void **state)
{
    struct world *w = *state;

    base_put(w, "a", "a\n");
    agent_begin(w);
    agent_unlink(w, "a");
    agent_end(w);
    later();
    base_put(w, "a", "worth keeping\n");
    assert_conflict(w, "a", "changed");
    assert_base(w, "a", "worth keeping\n");
    force(w);
    assert_false(base_has(w, "a"));
}

static void a_replaced_file_that_changed_is_a_conflict(void **state)
{
    struct world *w = *state;

    base_put(w, "a", "a\n");
    agent_begin(w);
    agent_create(w, "a.tmp", "agent\n", 0644); /* as editors do it */
    agent_rename(w, "a.tmp", "a");
    agent_end(w);
    later();
    base_put(w, "a", "owner\n");
    assert_conflict(w, "a", "changed");
    assert_base(w, "a", "owner\n");
}

static void in_a_live_base_the_kept_hash_decides(void **state)
{
    struct world *w = *state;

    base_put(w, "gone", "a\n");
    base_put(w, "over", "a\n");
    agent_start(w, (const char *const[]){ "**=write", NULL }, true);
    agent_unlink(w, "gone");
    agent_create(w, "tmp", "agent\n", 0644);
    agent_rename(w, "tmp", "over");
    agent_end(w);
    later();
    base_put(w, "gone", "a\n"); /* the same again */
    base_put(w, "over", "b\n");
    assert_conflict(w, "over", "changed");
    base_put(w, "over", "a\n");
    must_approve(w);
    assert_base(w, "over", "agent\n");
    assert_false(base_has(w, "gone"));
}

static void modes_that_both_changed_are_a_conflict(void **state)
{
    struct world *w = *state;

    base_put(w, "a", "a\n");
    agent_begin(w);
    agent_chmod(w, "a", 0755);
    agent_end(w);
    base_put_mode(w, "a", "a\n", 0600);
    assert_conflict(w, "a", "mode");
    force(w);
    assert_int_equal(base_mode(w, "a"), S_IFREG | 0755);
}

static void what_was_applied_is_the_new_ground(void **state)
{
    struct world *w = *state;

    base_put(w, "a", "a\n");
    base_put(w, "gone", "g\n");
    agent_begin(w);
    agent_write(w, "a", "one\n");
    agent_unlink(w, "gone");
    agent_create(w, "n", "one\n", 0644);
    agent_end(w);
    must_approve(w);
    agent_begin(w); /* the sandbox goes on */
    agent_write(w, "a", "two\n");
    agent_write(w, "n", "two\n");
    agent_end(w);
    must_approve(w);
    assert_base(w, "a", "two\n");
    assert_base(w, "n", "two\n");
    base_put(w, "a", "owner\n");
    assert_edits(w, ""); /* the agent has done nothing since */
    base_put(w, "gone", "made again by its owner\n");
    assert_conflict(w, "gone", "appeared");
    assert_base(w, "a", "owner\n");
}

/* ---- accidents ---- */

static void links_in_the_base_are_not_followed(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    assert_int_equal(mkdirat(w->f.fd, "outside", 0755), 0);
    put_file(&w->f, "outside/f", "outside\n");
    base_put(w, "d/f", "f\n");
    agent_begin(w);
    agent_write(w, "d/f", "agent\n");
    agent_end(w);
    assert_int_equal(renameat(w->f.fd, BASE_DIR "/d", w->f.fd, "elsewhere"), 0);
    assert_int_equal(symlinkat("../outside", w->f.fd, BASE_DIR "/d"), 0);
    assert_int_equal(try_approve(w, &(struct wanted){ 0 }, &approve, &err), 1);
    approve_done(&approve);
    assert_int_equal(try_approve(w, &(struct wanted){ .is_forced = true }, &approve, &err), 0);
    assert_base(w, "d/f", "agent\n");
    assert_int_equal(base_mode(w, "d") & S_IFMT, S_IFDIR); /* the link is gone, not followed */
    autodone(buf) struct buf text = BUF_EMPTY;
    assert_int_equal(file_read(w->f.fd, "outside/f", 100, &text), 0);
    assert_string_equal(text.data, "outside\n");
}

static void a_delta_in_use_is_refused(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    agent_begin(w);
    agent_create(w, "n", "n\n", 0644);
    assert_int_equal(try_approve(w, &(struct wanted){ 0 }, &approve, &err), -EBUSY);
    assert_false(base_has(w, "n"));
    agent_end(w);
    autofd int base = open(w->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(base, LOCK_EX | LOCK_NB), 0);
    approve_done(&approve);
    assert_int_equal(try_approve(w, &(struct wanted){ 0 }, &approve, &err), -EBUSY);
    assert_non_null(strstr(err.text, w->base));
}

static pid_t approve_and_die(struct world *w, const char *fault, int *ret_status)
{
    pid_t pid = fork();

    if (pid == 0) {
        autodone(approve) struct approve approve = APPROVE_NONE;
        setenv("AGENTFENSE_FAULT", fault, 1);
        coverage_exit(try_approve(w, &(struct wanted){ 0 }, &approve, NULL) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, ret_status, 0), pid);
    return pid;
}

/* Every file of the base is old or new, whichever step was the last; then a second run finishes. */
static void killed_at_any_step_it_is_finished_by_the_next(void **state)
{
    static const char *const points[] = { "landing-staging",     "landing-staged",       "landing-step",
                                          "landing-cleaned-one", "landing-version-made", "codebase-step" };
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        for (int pass = 1;; pass++) {
            struct world *inner = NULL;
            autofree char *fault = xprintf("%s:%d", points[i], pass);
            int status;
            assert_int_equal(world_setup((void **) &inner), 0);
            a_busy_agent(inner);
            approve_and_die(inner, fault, &status);
            if (WIFSIGNALED(status)) {
                autodone(buf) struct buf text = BUF_EMPTY;
                assert_int_equal(file_read(inner->f.fd, BASE_DIR "/a", 100, &text), 0);
                assert_true(strcmp(text.data, "a\n") == 0 || strcmp(text.data, "changed\n") == 0);
                assert_true(base_has(inner, "mv") || base_has(inner, "d/moved"));
                if (i < 2)
                    assert_base(inner, "a", "a\n");
            }
            must_approve(inner);
            assert_busy_work(inner);
            assert_int_equal(world_teardown((void **) &inner), 0);
            if (!WIFSIGNALED(status)) {
                assert_int_equal(status, 0);
                break;
            }
            assert_true(pass < 100);
        }
    }
    (void) w;
}

#ifndef OVER_CODEBASE
static void what_a_killed_run_staged_can_be_cleaned_up(void **state)
{
    struct world *w = *state;
    int status;

    a_busy_agent(w);
    approve_and_die(w, "landing-staged", &status);
    if (!WIFSIGNALED(status))
        skip();
    autofd int base = open(w->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(count_temps(base) > 0);
    assert_int_equal(approve_recover(w->delta, false, lands_in(w), NULL), 0);
    assert_tidy(w);
    assert_base(w, "a", "a\n");
}
#endif

static int spoil(const struct file_entry *entry, void *cookie)
{
    autofree char *path = xprintf("%s/noted", entry->name);

    if (!S_ISDIR(entry->st->st_mode))
        return FILE_WALK_SKIP;
    autofd int fd = path_open_beneath(entry->dirfd, path, O_WRONLY | O_TRUNC, 0);
    assert_true(fd >= 0);
    ++*(int *) cookie;
    return FILE_WALK_SKIP;
}

/* As who looks while it is put away finds it. */
static void one_that_is_in_two_places_is_one(void **state)
{
    struct world *w = *state;
    struct err err = ERR_NONE;
    autofree struct undo_entry *entries = NULL;
    size_t count = 0;

    a_busy_agent(w);
    must_approve(w);
    assert_int_equal(undo_list(w->delta, &entries, &count, &err), 0);
    assert_int_equal(count, 1);
    autofree char *away = xprintf("delta/meta/approvals/done/%s/noted", entries[0].id),
                  *here = xprintf("delta/meta/approvals/%s", entries[0].id), *noted = xprintf("%s/noted", here);
    assert_int_equal(mkdirat(w->f.fd, here, 0700), 0);
    assert_int_equal(linkat(w->f.fd, away, w->f.fd, noted, 0), 0);
    free(entries);
    entries = NULL;
    assert_int_equal(undo_list(w->delta, &entries, &count, &err), 0);
    assert_int_equal(count, 1);
}

/* What is finished is not read: its records may be many and long, and a damaged one is in nobody's way. */
static void finished_ones_do_not_matter_to_the_next(void **state)
{
    struct world *w = *state;
    struct err err = ERR_NONE;
    autofree char *records = xprintf("%s/meta/approvals/done", w->delta);
    int spoilt = 0;

    a_busy_agent(w);
    must_approve(w);
    autofd int fd = open(records, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_walk(fd, ".", spoil, &spoilt, &err), 0);
    assert_int_equal(spoilt, 1);
    agent_begin(w);
    agent_write(w, "a", "once more\n");
    agent_end(w);
    must_approve(w);
    assert_base(w, "a", "once more\n");
    assert_int_equal(approve_recover_before_delete(w->delta, &err), 0);
    /* Nor looked at, even: one that was not put away is, by the next. */
    assert_int_equal(mkdirat(w->f.fd, "delta/meta/approvals/ap_0123456789abcdef", 0700), 0);
    put_file(&w->f, "delta/meta/approvals/ap_0123456789abcdef/noted", "spoilt");
    assert_int_equal(approve_recover(w->delta, false, lands_in(w), &err), 0);
    assert_true(is_there(&w->f, "delta/meta/approvals/done/ap_0123456789abcdef/noted"));
    assert_false(is_there(&w->f, "delta/meta/approvals/ap_0123456789abcdef"));
}

#ifndef OVER_CODEBASE
/* In a child, which has a small file system of its own below the base. Returns the line that is not as it should be. */
static int fill_a_small_disk(struct world *w)
{
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;
    autofree char *d = xprintf("%s/d", w->base), *big = xalloc(300 << 10);
    struct stat st;

    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", d, "tmpfs", 0, "size=256k") < 0)
        return 77;
    base_put(w, "d/old", "old\n");
    later();
    memset(big, 'x', (300 << 10) - 1);
    agent_begin(w);
    agent_write(w, "a", "agent\n");
    agent_write(w, "d/old", "agent\n");
    agent_unlink(w, "gone");
    agent_create(w, "d/small", "small\n", 0644);
    agent_create(w, "d/zbig", big, 0644);
    agent_end(w);
    if (try_approve(w, &(struct wanted){ 0 }, &approve, &err) != -ENOSPC)
        return __LINE__;
    if (!strstr(err.text, "nothing was changed") || !strstr(err.text, "'d/zbig'"))
        return __LINE__;
    assert_base(w, "a", "a\n");
    assert_base(w, "d/old", "old\n");
    assert_base(w, "gone", "g\n");
    if (base_has(w, "d/small") || base_has(w, "d/zbig"))
        return __LINE__;
    assert_tidy(w);
    return fstatat(w->f.fd, BASE_DIR "/d/old", &st, 0) == 0 ? 0 : __LINE__;
}

static void a_full_disk_changes_nothing(void **state)
{
    struct world *w = *state;
    int status;
    pid_t pid;

    base_put(w, "a", "a\n");
    base_put(w, "gone", "g\n");
    assert_int_equal(mkdirat(w->f.fd, BASE_DIR "/d", 0755), 0);
    pid = fork();
    if (pid == 0)
        coverage_exit(fill_a_small_disk(w));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static void a_directory_we_may_not_write_changes_nothing(void **state)
{
    struct world *w = *state;
    autodone(approve) struct approve approve = APPROVE_NONE;
    struct err err = ERR_NONE;

    base_put(w, "a", "a\n");
    base_put(w, "d/b", "b\n");
    agent_begin(w);
    agent_write(w, "a", "agent\n");
    agent_write(w, "d/b", "agent\n");
    agent_end(w);
    if (geteuid() == 0)
        skip();
    assert_int_equal(fchmodat(w->f.fd, BASE_DIR "/d", 0555, 0), 0);
    assert_int_equal(try_approve(w, &(struct wanted){ 0 }, &approve, &err), -EACCES);
    assert_int_equal(fchmodat(w->f.fd, BASE_DIR "/d", 0755, 0), 0);
    assert_base(w, "a", "a\n");
    assert_tidy(w);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(every_kind_of_change_is_applied),
#ifndef OVER_CODEBASE
        world_test(a_mask_limits_the_modes_of_what_is_new),
#endif
        world_test(what_is_new_has_the_mode_that_is_shown),
        world_test(a_mode_that_was_cut_is_no_conflict_later),
        world_test(dangerous_bits_are_not_applied),
#ifndef OVER_CODEBASE
        world_test(owners_are_those_of_the_base),
#endif
        world_test(only_chosen_paths_are_applied),
        world_test(git_is_never_written),
        world_test(hidden_files_are_never_deleted),
        world_test(a_file_changed_in_the_base_is_a_conflict),
        world_test(a_file_touched_in_the_base_is_none),
        world_test(a_file_the_owner_deleted_is_a_conflict),
        world_test(a_file_both_made_is_a_conflict),
        world_test(a_deleted_file_that_changed_is_a_conflict),
        world_test(a_replaced_file_that_changed_is_a_conflict),
        world_test(in_a_live_base_the_kept_hash_decides),
        world_test(modes_that_both_changed_are_a_conflict),
        world_test(what_was_applied_is_the_new_ground),
        world_test(links_in_the_base_are_not_followed),
        world_test(a_delta_in_use_is_refused),
        world_test(killed_at_any_step_it_is_finished_by_the_next),
#ifndef OVER_CODEBASE
        world_test(what_a_killed_run_staged_can_be_cleaned_up),
#endif
        world_test(one_that_is_in_two_places_is_one),
        world_test(finished_ones_do_not_matter_to_the_next),
#ifndef OVER_CODEBASE
        world_test(a_full_disk_changes_nothing),
        world_test(a_directory_we_may_not_write_changes_nothing),
#endif
    };

    use_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
