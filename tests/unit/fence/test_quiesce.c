#include "fence_fixture.h"

#include <sys/wait.h>

#include "base/coverage.h"
#include "base/path.h"
#include "fence/handle.h"
#include "fence/quiesce.h"
#include "fence/revert.h"

static const char *const all[] = { "/**=write", NULL };

static int try_release(struct fixture *x, const char *const *paths, int replace_fd, struct err *err)
{
    struct fence_revert reverts[16];
    struct fence_quiesced *quiesced;
    size_t count = 0;

    for (; paths[count]; count++)
        reverts[count] = (struct fence_revert){ paths[count], replace_fd };
    assert_int_equal(fence_quiesce(x->fence, 60000, &quiesced, err), 0);
    return fence_resume(quiesced, reverts, count, err);
}

static void release(struct fixture *x, const char *const *paths)
{
    struct err err = ERR_NONE;

    if (try_release(x, paths, -1, &err) < 0)
        fail_msg("%s", err.text);
}

#define DROP(x, ...) release(x, (const char *const[]){ __VA_ARGS__, NULL })

static void drop_at_rest(struct fixture *x, const char *path)
{
    autofree char *delta = xprintf("%s/delta", x->dir);
    struct err err = ERR_NONE;
    struct fence_revert drop = { path, -1 };

    if (delta_revert(delta, &drop, 1, &err) < 0)
        fail_msg("%s", err.text);
}

static void reopen(struct fixture *x)
{
    fixture_close(x);
    fixture_open(x, all, 1 << 30);
}

static void unlink_at(struct fixture *x, const char *dir, const char *name)
{
    assert_int_equal(op_unlink(x->fence, &nobody, *dir ? walk(x, dir, NULL) : x->fence->root, name), 0);
}

static void rmdir_at(struct fixture *x, const char *dir, const char *name)
{
    assert_int_equal(op_rmdir(x->fence, &nobody, *dir ? walk(x, dir, NULL) : x->fence->root, name), 0);
}

/* The quota equals what a new fence counts. */
static void assert_counts_hold(struct fixture *x)
{
    struct fence_stats before, after;

    fence_stats(x->fence, &before);
    reopen(x);
    fence_stats(x->fence, &after);
    assert_int_equal(before.used_inodes, after.used_inodes);
    assert_int_equal(before.used_bytes, after.used_bytes);
}

static void begin(struct fixture *x)
{
    fixture_init(x);
    put_file(x, "base/f", "base f");
    put_file(x, "base/g", "base g");
    put_dir(x, "base/d");
    put_file(x, "base/d/a", "base a");
    put_file(x, "base/d/b", "base b");
    put_dir(x, "base/d/e");
    put_file(x, "base/d/e/deep", "base deep");
    fixture_open(x, all, 1 << 30);
}

static void a_dropped_file_is_the_bases_again_and_stays_open(void **state)
{
    struct fixture x;
    struct stat before, after;

    (void) state;
    begin(&x);
    struct inode *f = walk(&x, "f", &before);
    write_text(&x, f, "AGENT", 0);
    assert_content(&x, f, "AGENTf");
    DROP(&x, "/f");
    assert_content(&x, f, "base f");
    assert_ptr_equal(walk(&x, "f", &after), f);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(delta_entries(&x), 0);
    /* The next write makes a new copy of the current base. */
    put_file(&x, "base/f", "BASE F");
    write_text(&x, f, "x", 0);
    assert_content(&x, f, "xASE F");
    assert_true(is_there(&x, "delta/data/f"));
    assert_counts_hold(&x);
    fixture_done(&x);
}

static void the_rest_of_the_delta_stays(void **state)
{
    struct fixture x;

    (void) state;
    begin(&x);
    write_text(&x, walk(&x, "f", NULL), "AGENT", 0);
    write_text(&x, walk(&x, "d/a", NULL), "AGENT", 0);
    write_text(&x, walk(&x, "d/b", NULL), "AGENT", 0);
    unlink_at(&x, "", "g");
    DROP(&x, "/d/a");
    for (int i = 0; i < 2; i++) {
        assert_content(&x, walk(&x, "f", NULL), "AGENTf");
        assert_content(&x, walk(&x, "d/a", NULL), "base a");
        assert_content(&x, walk(&x, "d/b", NULL), "AGENTb");
        assert_null(walk(&x, "g", NULL));
        assert_counts_hold(&x);
    }
    DROP(&x, "/g", "/d");
    assert_content(&x, walk(&x, "g", NULL), "base g");
    assert_content(&x, walk(&x, "d/b", NULL), "base b");
    assert_int_equal(delta_entries(&x), 1);
    DROP(&x, "/");
    assert_content(&x, walk(&x, "f", NULL), "base f");
    assert_int_equal(delta_entries(&x), 0);
    assert_counts_hold(&x);
    fixture_done(&x);
}

static void a_file_the_base_has_not_goes_on_without_a_name(void **state)
{
    struct fixture x;
    struct fence_stats stats;

    (void) state;
    begin(&x);
    make_dir(&x, "", "new");
    struct inode *n = make_file(&x, "new", "n", "new text");
    fence_stats(x.fence, &stats);
    assert_int_equal(stats.used_inodes, 2);
    DROP(&x, "/new");
    assert_null(walk(&x, "new", NULL));
    handles_trim(x.fence);
    assert_content(&x, n, "new text");
    assert_int_equal(write_text(&x, n, "NEW", 0), 3);
    assert_content(&x, n, "NEW text");
    fence_stats(x.fence, &stats);
    assert_int_equal(stats.used_inodes, 0);
    assert_int_equal(stats.used_bytes, 4096);
    inode_forget(x.fence, n, 100);
    fence_stats(x.fence, &stats);
    assert_int_equal(stats.used_bytes, 0);
    assert_counts_hold(&x);
    fixture_done(&x);
}

static void names_of_one_file_are_dropped_one_by_one(void **state)
{
    struct fixture x;
    struct entry_answer answer;

    (void) state;
    begin(&x);
    struct inode *f = walk(&x, "f", NULL);
    write_text(&x, f, "AGENT", 0);
    assert_int_equal(op_link(x.fence, &nobody, f, x.fence->root, "other", &answer), 0);
    DROP(&x, "/f");
    assert_content(&x, walk(&x, "f", NULL), "base f");
    assert_content(&x, walk(&x, "other", NULL), "AGENTf");
    assert_content(&x, f, "AGENTf");
    assert_counts_hold(&x);
    assert_int_equal(op_link(x.fence, &nobody, walk(&x, "other", NULL), x.fence->root, "third", &answer), 0);
    struct inode *other = walk(&x, "other", NULL);
    DROP(&x, "/other", "/third");
    assert_null(walk(&x, "other", NULL));
    assert_null(walk(&x, "third", NULL));
    assert_content(&x, other, "AGENTf");
    fixture_done(&x);
}

static void a_directory_made_again_opens_for_what_is_dropped_in_it(void **state)
{
    struct fixture x;

    (void) state;
    begin(&x);
    unlink_at(&x, "d", "a");
    unlink_at(&x, "d", "b");
    unlink_at(&x, "d/e", "deep");
    rmdir_at(&x, "d", "e");
    rmdir_at(&x, "", "d");
    make_dir(&x, "", "d");
    make_file(&x, "d", "a", "AGENT a");
    make_file(&x, "d", "c", "AGENT c");
    reopen(&x);
    DROP(&x, "/d/a");
    for (int i = 0; i < 2; i++) {
        assert_content(&x, walk(&x, "d/a", NULL), "base a");
        assert_content(&x, walk(&x, "d/c", NULL), "AGENT c");
        assert_null(walk(&x, "d/b", NULL));
        assert_null(walk(&x, "d/e", NULL));
        assert_counts_hold(&x);
    }
    DROP(&x, "/d/e/deep");
    for (int i = 0; i < 2; i++) {
        assert_content(&x, walk(&x, "d/e/deep", NULL), "base deep");
        assert_null(walk(&x, "d/b", NULL));
        assert_counts_hold(&x);
    }
    fixture_done(&x);
}

static void one_file_of_a_deleted_directory_comes_back(void **state)
{
    struct fixture x;

    (void) state;
    for (int at_rest = 0; at_rest < 2; at_rest++) {
        begin(&x);
        unlink_at(&x, "d", "a");
        unlink_at(&x, "d", "b");
        unlink_at(&x, "d/e", "deep");
        rmdir_at(&x, "d", "e");
        rmdir_at(&x, "", "d");
        assert_null(walk(&x, "d", NULL));
        if (at_rest) {
            fixture_close(&x);
            drop_at_rest(&x, "/d/e/deep");
            fixture_open(&x, all, 0);
        } else {
            reopen(&x);
            DROP(&x, "/d/e/deep");
        }
        for (int i = 0; i < 2; i++) {
            assert_content(&x, walk(&x, "d/e/deep", NULL), "base deep");
            assert_null(walk(&x, "d/a", NULL));
            assert_null(walk(&x, "d/b", NULL));
            assert_counts_hold(&x);
        }
        fixture_done(&x);
    }
}

static void content_is_replaced_at_once_and_for_who_has_it_open(void **state)
{
    struct fixture x;
    struct err err = ERR_NONE;

    (void) state;
    begin(&x);
    struct inode *f = walk(&x, "f", NULL);
    write_text(&x, f, "AGENT", 0);
    assert_int_equal(op_setattr(x.fence, &nobody, f, &(struct stat){ .st_mode = 0751 }, 1, &(struct entry_answer){ 0 }), 0);
    put_file(&x, "merged", "merged text, longer than before");
    autofd int fd = openat(x.fd, "merged", O_RDONLY | O_CLOEXEC);
    if (try_release(&x, (const char *const[]){ "/f", NULL }, fd, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) {
        struct stat st = { 0 };
        f = walk(&x, "f", &st);
        assert_content(&x, f, "merged text, longer than before");
        assert_int_equal(st.st_mode & 0777, 0751);
        assert_false(is_there(&x, "delta/meta/replace"));
        assert_counts_hold(&x);
    }
    write_text(&x, walk(&x, "f", NULL), "M", 0);
    assert_content(&x, walk(&x, "f", NULL), "Merged text, longer than before");
    /* A file of the base cannot be replaced. */
    assert_int_equal(try_release(&x, (const char *const[]){ "/g", NULL }, fd, &err), -ENOENT);
    assert_content(&x, walk(&x, "g", NULL), "base g");
    fixture_done(&x);
}

static void paths_that_are_none_are_refused_and_nothing_happens(void **state)
{
    static const char *const bad[] = { "f", "", "/f/", "//f", "/../f", "/d/./a", "/.wh.g", "/d/.wh..wh..opq" };
    struct fixture x;

    (void) state;
    begin(&x);
    write_text(&x, walk(&x, "f", NULL), "AGENT", 0);
    unlink_at(&x, "", "g");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = ERR_NONE;
        assert_int_equal(try_release(&x, (const char *const[]){ "/f", bad[i], NULL }, -1, &err), -EINVAL);
        assert_content(&x, walk(&x, "f", NULL), "AGENTf");
    }
    DROP(&x, "/nothing", "/d/a", "/d/e/no/such", "/f/below");
    assert_content(&x, walk(&x, "f", NULL), "AGENTf");
    assert_null(walk(&x, "g", NULL));
    fixture_done(&x);
}

static void a_directory_that_a_rule_promised_stays(void **state)
{
    static const char *const rules[] = { "/**=read", "/out/in/**=write", "/d/**=write", NULL };
    struct fixture x;

    (void) state;
    begin(&x);
    fixture_close(&x);
    fixture_open(&x, rules, 0);
    for (int i = 0; i < 2; i++) {
        make_file(&x, "out/in", "x", "x");
        make_dir(&x, "out/in", "y");
        write_text(&x, walk(&x, "d/a", NULL), "AGENT", 0);
        if (i == 0) {
            DROP(&x, "/");
        } else {
            DROP(&x, "/out", "/d");
        }
        assert_non_null(walk(&x, "out/in", NULL));
        assert_null(walk(&x, "out/in/x", NULL));
        assert_null(walk(&x, "out/in/y", NULL));
        assert_content(&x, walk(&x, "d/a", NULL), "base a");
    }
    assert_int_equal(delta_entries(&x), 2);
    fixture_done(&x);
}

static void more_paths_than_are_synced_one_by_one(void **state)
{
    enum { COUNT = REVERT_SYNC_EACH_MAX * 2 };
    static struct fence_revert reverts[COUNT];
    static char paths[COUNT][16];
    struct fixture x;
    struct fence_quiesced *quiesced;
    struct err err = ERR_NONE;

    (void) state;
    begin(&x);
    for (int i = 0; i < COUNT; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/d/n%d", i);
        make_file(&x, "d", paths[i] + 3, "n");
        reverts[i] = (struct fence_revert){ paths[i], -1 };
    }
    assert_int_equal(fence_quiesce(x.fence, 60000, &quiesced, &err), 0);
    assert_int_equal(fence_resume(quiesced, reverts, COUNT, &err), 0);
    assert_int_equal(delta_entries(&x), 0);
    assert_null(walk(&x, "d/n1", NULL));
    assert_content(&x, walk(&x, "d/a", NULL), "base a");
    fixture_done(&x);
}

static void an_operation_that_does_not_end_is_waited_for_in_vain(void **state)
{
    struct fixture x;
    struct fence_quiesced *quiesced;
    struct err err = ERR_NONE;

    (void) state;
    begin(&x);
    pthread_rwlock_rdlock(&x.fence->gate);
    assert_int_equal(fence_quiesce(x.fence, 50, &quiesced, &err), -ETIMEDOUT);
    pthread_rwlock_unlock(&x.fence->gate);
    assert_int_equal(fence_quiesce(x.fence, 50, &quiesced, &err), 0);
    assert_int_equal(pthread_rwlock_tryrdlock(&x.fence->gate), EBUSY);
    assert_int_equal(fence_resume(quiesced, NULL, 0, &err), 0);
    assert_int_equal(pthread_rwlock_tryrdlock(&x.fence->gate), 0);
    pthread_rwlock_unlock(&x.fence->gate);
    fixture_done(&x);
}

/* Drivers without a fence rely on this alone. */
static void a_diary_does_not_grow_with_what_was_dropped(void **state)
{
    static const char line[] =
        "{\"time_ns\":1,\"change\":\"applied\",\"path\":\"f\"}\n{\"time_ns\":2,\"change\":\"dropped\",\"path\":\"f\"}\n";
    struct fixture x;
    autodone(buf) struct buf text = BUF_EMPTY;

    (void) state;
    begin(&x);
    write_text(&x, walk(&x, "f", NULL), "AGENT", 0);
    write_text(&x, walk(&x, "g", NULL), "AGENT", 0);
    fixture_close(&x);
    autofd int fd = openat(x.fd, "delta/meta/changes", O_WRONLY | O_APPEND | O_CLOEXEC);
    while (lseek(fd, 0, SEEK_END) < (64 << 10) - 60)
        assert_int_equal(write(fd, line, sizeof(line) - 1), sizeof(line) - 1);
    drop_at_rest(&x, "/f");
    drop_at_rest(&x, "/new-and-unknown");
    assert_int_equal(file_read(x.fd, "delta/meta/changes", 1 << 24, &text), 0);
    assert_in_range(text.len, 200, 2000);
    assert_non_null(strstr(text.data, "\"copied-up\",\"path\":\"g\""));
    assert_non_null(strstr(text.data, "\"dropped\",\"path\":\"f\""));
    assert_null(strstr(text.data, "\"time_ns\":2,"));
    fixture_open(&x, all, 1 << 30);
    assert_content(&x, walk(&x, "g", NULL), "AGENTg");
    fixture_done(&x);
}

static void a_delta_in_use_is_not_touched_from_outside(void **state)
{
    struct fixture x;
    struct err err = ERR_NONE;

    (void) state;
    begin(&x);
    autofree char *delta = xprintf("%s/delta", x.dir);
    write_text(&x, walk(&x, "f", NULL), "AGENT", 0);
    assert_int_equal(delta_revert(delta, &(struct fence_revert){ "/f", -1 }, 1, &err), -EBUSY);
    assert_content(&x, walk(&x, "f", NULL), "AGENTf");
    fixture_done(&x);
}

/* ---- kills ---- */

static void change_much(struct fixture *x)
{
    begin(x);
    write_text(x, walk(x, "f", NULL), "AGENT", 0);
    write_text(x, walk(x, "g", NULL), "AGENT", 0);
    unlink_at(x, "d", "a");
    unlink_at(x, "d", "b");
    unlink_at(x, "d/e", "deep");
    rmdir_at(x, "d", "e");
    rmdir_at(x, "", "d");
    make_dir(x, "", "d");
    make_file(x, "d", "c", "AGENT c");
    make_dir(x, "", "new");
    make_file(x, "new", "n", "n");
    fixture_close(x);
}

static int die_dropping(struct fixture *x, const char *fault_name)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct err err = ERR_NONE;
        autofree char *delta = xprintf("%s/delta", x->dir);
        autofd int fd = openat(x->fd, "merged", O_RDONLY | O_CLOEXEC);
        struct fence_revert reverts[] = { { "/f", -1 }, { "/d/e/deep", -1 }, { "/new", -1 }, { "/g", fd } };
        setenv("AGENTFENSE_FAULT", fault_name, 1);
        coverage_exit(delta_revert(delta, reverts, ARRAY_LEN(reverts), &err) < 0 ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void whoever_is_killed_is_finished_at_the_next_mount(void **state)
{
    static const char *const faults[] = { "drop-staged",    "drop-noted",    "drop-moved",  "drop-removed",  "drop-removed:2",
                                          "drop-dir-made",  "drop-veiled",   "drop-opened", "drop-opened:2", "drop-removed:3",
                                          "drop-replacing", "drop-replaced", "drop-done",   "drop-ended" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        bool is_done = i > 0;
        struct fixture x;
        change_much(&x);
        put_file(&x, "merged", "merged");
        int status = die_dropping(&x, faults[i]);
        if (!WIFSIGNALED(status))
            fail_msg("'%s' is not on the way: %d", faults[i], status);
        fixture_open(&x, all, 0);
        for (int round = 0; round < 2; round++) {
            assert_content(&x, walk(&x, "f", NULL), is_done ? "base f" : "AGENTf");
            assert_content(&x, walk(&x, "g", NULL), is_done ? "merged" : "AGENTg");
            assert_content(&x, walk(&x, "d/c", NULL), "AGENT c");
            assert_null(walk(&x, "d/a", NULL));
            assert_true((walk(&x, "d/e/deep", NULL) != NULL) == is_done);
            assert_true((walk(&x, "new", NULL) == NULL) == is_done);
            assert_false(is_there(&x, "delta/meta/drop"));
            assert_false(is_there(&x, "delta/meta/replace"));
            assert_counts_hold(&x);
        }
        fixture_done(&x);
    }
}

/* ---- whatever happens ---- */

#define NAMES 3
#define PATHS (NAMES + NAMES * NAMES + NAMES * NAMES * NAMES)

static void path_of(size_t index, char out[16])
{
    size_t n = 0;

    if (index >= NAMES + NAMES * NAMES) {
        index -= NAMES + NAMES * NAMES;
        out[n++] = (char) ('a' + index / (NAMES * NAMES));
        out[n++] = '/';
        index %= NAMES * NAMES;
        out[n++] = (char) ('a' + index / NAMES);
        out[n++] = '/';
    } else if (index >= NAMES) {
        index -= NAMES;
        out[n++] = (char) ('a' + index / NAMES);
        out[n++] = '/';
    }
    out[n++] = (char) ('a' + index % NAMES);
    out[n] = 0;
}

/* "" if there is nothing, "/" for a directory, or the content. */
typedef char tree_state[PATHS][16];

static void look(struct fixture *x, tree_state out)
{
    for (size_t i = 0; i < PATHS; i++) {
        struct inode *at = x->fence->root;
        char path[16], *save = NULL;
        path_of(i, path);
        for (char *name = strtok_r(path, "/", &save); name && at; name = strtok_r(NULL, "/", &save)) {
            struct entry_answer answer = { 0 };
            if (!inode_is_dir(at) || op_lookup(x->fence, &nobody, at, name, &answer) < 0)
                answer.inode = NULL;
            at = answer.inode;
        }
        memset(out[i], 0, sizeof(out[i]));
        if (at && inode_is_dir(at))
            out[i][0] = '/';
        else if (at)
            assert_true(op_read(x->fence, &nobody, at, out[i], 15, 0) > 0);
    }
}

static void look_at_base(struct fixture *x, tree_state out)
{
    autofd int base = openat(x->fd, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (size_t i = 0; i < PATHS; i++) {
        char path[16];
        struct stat st;
        path_of(i, path);
        memset(out[i], 0, sizeof(out[i]));
        if (fstatat(base, path, &st, 0) < 0)
            continue;
        autofd int fd = openat(base, path, O_RDONLY | O_CLOEXEC);
        if (S_ISDIR(st.st_mode))
            out[i][0] = '/';
        else
            assert_true(read(fd, out[i], 15) > 0);
    }
}

static struct inode *dir_of(struct fixture *x, const char *path, const char **ret_name)
{
    struct inode *at = x->fence->root;
    const char *slash;

    while ((slash = strchr(path, '/'))) {
        char name[2] = { path[0], 0 };
        struct entry_answer answer = { 0 };
        if (op_lookup(x->fence, &nobody, at, name, &answer) < 0 || !answer.inode || !inode_is_dir(answer.inode))
            return NULL;
        at = answer.inode;
        path = slash + 1;
    }
    *ret_name = path;
    return at;
}

static bool is_beneath(const char *path, const char *top)
{
    return strncmp(path, top, strlen(top)) == 0 && (path[strlen(top)] == 0 || path[strlen(top)] == '/');
}

static void do_something(struct fixture *x, unsigned *seed)
{
    char path[16], other[16], text[12];
    const char *name, *to;
    struct entry_answer answer = { 0 };
    path_of((size_t) rand_r(seed) % PATHS, path);
    path_of((size_t) rand_r(seed) % PATHS, other);
    struct inode *dir = dir_of(x, path, &name), *into = dir_of(x, other, &to);

    snprintf(text, sizeof(text), "s%u", (unsigned) rand_r(seed) % 1000);
    if (!dir)
        return;
    switch (rand_r(seed) % 6) {
    case 0:
        if (op_mknod(x->fence, &nobody, dir, name, S_IFREG | 0644, &answer) == 0)
            write_text(x, answer.inode, text, 0);
        break;
    case 1:
        if (op_lookup(x->fence, &nobody, dir, name, &answer) == 0 && answer.inode && !inode_is_dir(answer.inode))
            write_text(x, answer.inode, text, 0);
        break;
    case 2:
        op_unlink(x->fence, &nobody, dir, name);
        break;
    case 3:
        op_rmdir(x->fence, &nobody, dir, name);
        break;
    case 4:
        op_mkdir(x->fence, &nobody, dir, name, 0755, &answer);
        break;
    case 5:
        /* The kernel refuses to move a directory into itself. */
        if (into && !is_beneath(path, other) && !is_beneath(other, path))
            op_rename(x->fence, &nobody, dir, name, into, to, 0);
        break;
    }
}

/* What must be there after `top` was reverted. */
static void expect(tree_state before, tree_state base, size_t top, tree_state out)
{
    char top_path[16], path[16];
    bool is_blocked = false;

    path_of(top, top_path);
    for (size_t i = 0; i < PATHS; i++) {
        path_of(i, path);
        is_blocked |= i != top && is_beneath(top_path, path) && before[i][0] && before[i][0] != '/';
    }
    for (size_t i = 0; i < PATHS; i++) {
        path_of(i, path);
        memcpy(out[i], before[i], sizeof(out[i]));
        if (is_blocked)
            continue;
        if (is_beneath(path, top_path))
            memcpy(out[i], base[i], sizeof(out[i]));
        else if (is_beneath(top_path, path) && base[top][0])
            strcpy(out[i], "/");
    }
}

static void assert_same(tree_state a, tree_state b, unsigned seed, const char *when)
{
    for (size_t i = 0; i < PATHS; i++) {
        char path[16];
        path_of(i, path);
        if (strcmp(a[i], b[i]) != 0)
            fail_msg("seed %u, %s: '%s' is '%s' instead of '%s'", seed, when, path, b[i], a[i]);
    }
}

static void any_tree_is_what_it_was_but_for_what_was_dropped(void **state)
{
    (void) state;
    for (unsigned seed = 1; seed <= full_or_share(80, 20); seed++) {
        unsigned dice = seed;
        struct fixture x;
        tree_state before, base, expected, after;
        fixture_init(&x);
        x.is_live = seed % 3 == 0;
        for (size_t i = 0; i < PATHS; i++) {
            char path[16];
            path_of(i, path);
            autofree char *at = xprintf("base/%s", path);
            unsigned kind = (unsigned) rand_r(&dice) % 4;
            autofree char *text = xprintf("b%zu", i);
            if (kind == 0 && i < PATHS)
                mkdirat(x.fd, at, 0755);
            autofd int fd = kind == 1 ? openat(x.fd, at, O_WRONLY | O_CREAT | O_CLOEXEC, 0644) : -1;
            if (fd >= 0)
                assert_true(write(fd, text, strlen(text)) > 0);
        }
        fixture_open(&x, all, 0);
        for (int round = 0; round < 6; round++) {
            for (int i = 0; i < 25; i++)
                do_something(&x, &dice);
            size_t top = (size_t) rand_r(&dice) % PATHS;
            char name[16], path[17];
            path_of(top, name);
            snprintf(path, sizeof(path), "/%s", name);
            look(&x, before);
            look_at_base(&x, base);
            expect(before, base, top, expected);
            if (rand_r(&dice) % 3 == 0) {
                fixture_close(&x);
                drop_at_rest(&x, path);
                fixture_open(&x, all, 0);
            } else {
                DROP(&x, path);
            }
            look(&x, after);
            assert_same(expected, after, seed, path);
            handles_trim(x.fence);
            fixture_close(&x);
            fixture_open(&x, all, 0);
            look(&x, after);
            assert_same(expected, after, seed, "at the next mount");
        }
        DROP(&x, "/");
        look(&x, after);
        assert_same(base, after, seed, "everything dropped");
        assert_int_equal(delta_entries(&x), 0);
        fixture_done(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dropped_file_is_the_bases_again_and_stays_open),
        cmocka_unit_test(the_rest_of_the_delta_stays),
        cmocka_unit_test(a_file_the_base_has_not_goes_on_without_a_name),
        cmocka_unit_test(names_of_one_file_are_dropped_one_by_one),
        cmocka_unit_test(a_directory_made_again_opens_for_what_is_dropped_in_it),
        cmocka_unit_test(one_file_of_a_deleted_directory_comes_back),
        cmocka_unit_test(content_is_replaced_at_once_and_for_who_has_it_open),
        cmocka_unit_test(paths_that_are_none_are_refused_and_nothing_happens),
        cmocka_unit_test(a_directory_that_a_rule_promised_stays),
        cmocka_unit_test(more_paths_than_are_synced_one_by_one),
        cmocka_unit_test(an_operation_that_does_not_end_is_waited_for_in_vain),
        cmocka_unit_test(a_diary_does_not_grow_with_what_was_dropped),
        cmocka_unit_test(a_delta_in_use_is_not_touched_from_outside),
        cmocka_unit_test(whoever_is_killed_is_finished_at_the_next_mount),
        cmocka_unit_test(any_tree_is_what_it_was_but_for_what_was_dropped),
    };

    use_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
