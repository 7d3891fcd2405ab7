#include "fence_fixture.h"

#include "base/path.h"
#include "fence/handle.h"
#include "fence/sync_out.h"

/* Applies changes to the base as a codebase would: all at once, by renames. */
struct taker {
    struct fixture *x;
    int base_fd;
    size_t calls;
    char log[4096];           /* "+f path\n" ... in the order in which they came */
    bool loses_below;         /* with everything in it */
    const char *loses;        /* this path does */
    const char *stays;        /* this one is left */
    int fails;                /* fails with this, before anything is applied */
    struct sync_out_base was; /* of `asks` */
    const char *asks;
    int64_t changed_ns;
};

static const char *const all[] = { "/**=write", NULL };

static void do_one(struct taker *t, struct sync_out_change *c)
{
    struct stat st;

    switch (c->kind) {
    case SYNC_OUT_FILE:
    case SYNC_OUT_SYMLINK:
        assert_int_equal(renameat(c->from_fd, c->name, t->base_fd, c->path), 0);
        break;
    case SYNC_OUT_DIR:
        if (fstatat(t->base_fd, c->path, &st, 0) < 0)
            assert_int_equal(mkdirat(t->base_fd, c->path, c->mode), 0);
        break;
    case SYNC_OUT_MODE:
        assert_int_equal(fchmodat(t->base_fd, c->path, c->mode, 0), 0);
        break;
    case SYNC_OUT_REMOVED:
        assert_int_equal(fstatat(t->base_fd, c->path, &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(unlinkat(t->base_fd, c->path, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0), 0);
        break;
    }
}

static int take(struct sync_out_change *changes, size_t count, void *cookie, struct err *err)
{
    static const char letters[] = "fldm-";
    struct taker *t = cookie;

    t->calls++;
    if (t->fails)
        return err_errno(err, t->fails, "taking");
    for (size_t i = 0; i < count; i++) {
        struct sync_out_change *c = &changes[i];
        size_t len = strlen(t->log);
        snprintf(t->log + len, sizeof(t->log) - len, "%c %s\n", letters[c->kind], c->path);
        if (t->asks && strcmp(c->path, t->asks) == 0) {
            t->was = c->was;
            t->changed_ns = c->changed_ns;
        }
        if (t->stays && strcmp(c->path, t->stays) == 0) {
            c->outcome = SYNC_OUT_LEFT;
        } else if (t->loses &&
                   (strcmp(c->path, t->loses) == 0 || (t->loses_below && strncmp(c->path, t->loses, strlen(t->loses)) == 0))) {
            c->outcome = SYNC_OUT_LOST;
            if (c->from_fd >= 0)
                assert_int_equal(renameat(c->from_fd, c->name, t->x->fd, "loser"), 0);
        } else {
            do_one(t, c);
        }
    }
    return 0;
}

static struct sync_out_result hand_over(struct fixture *x, struct taker *t)
{
    struct sync_out_result result;
    struct err err = ERR_NONE;

    t->x = x;
    t->log[0] = 0;
    t->base_fd = openat(x->fd, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fence_sync_out(x->fence, take, t, &result, &err) < 0)
        fail_msg("%s", err.text);
    close(t->base_fd);
    return result;
}

static void begin(struct fixture *x)
{
    fixture_init(x);
    x->syncs_out = true;
}

static void reopen(struct fixture *x, const char *const *rules)
{
    fixture_close(x);
    fixture_open(x, rules, 0);
}

static void assert_base(struct fixture *x, const char *path, const char *text)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    autofree char *at = xprintf("base/%s", path);

    assert_int_equal(file_read(x->fd, at, 4096, &bytes), 0);
    assert_int_equal(bytes.len, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.len);
}

static struct stat stat_of(struct fixture *x, const char *path)
{
    struct stat st = { 0 };

    assert_non_null(walk(x, path, &st));
    return st;
}

static void nothing_changed_costs_no_taking(void **state)
{
    struct fixture x;
    struct taker t = { 0 };

    (void) state;
    begin(&x);
    put_file(&x, "base/f", "f");
    fixture_open(&x, all, 0);
    assert_content(&x, walk(&x, "f", NULL), "f");
    hand_over(&x, &t);
    assert_int_equal(t.calls, 0);
    write_text(&x, walk(&x, "f", NULL), "g", 0);
    hand_over(&x, &t);
    /* An operation is under way, and nothing waits for it. */
    setenv("AGENTFENSE_FAULT", "handover-impatient", 1);
    pthread_rwlock_rdlock(&x.fence->gate);
    hand_over(&x, &t);
    pthread_rwlock_unlock(&x.fence->gate);
    unsetenv("AGENTFENSE_FAULT");
    assert_int_equal(t.calls, 1);
    fixture_done(&x);
}

static void the_tree_is_the_same_before_and_after_and_at_the_next_mount(void **state)
{
    struct fixture x;
    struct taker t = { 0 };
    struct entry_answer answer;
    static const char *const paths[] = { "changed", "new", "dir", "dir/inner", "dir/inner/deep", "moved", "kept", "link" };
    struct stat before[ARRAY_LEN(paths)];

    (void) state;
    begin(&x);
    put_file(&x, "base/changed", "old");
    put_file(&x, "base/from", "moved text");
    put_file(&x, "base/gone", "gone");
    put_file(&x, "base/kept", "kept");
    fixture_open(&x, all, 0);
    write_text(&x, walk(&x, "changed", NULL), "NEW", 0);
    make_file(&x, "", "new", "new text");
    make_dir(&x, "", "dir");
    make_dir(&x, "dir", "inner");
    make_file(&x, "dir/inner", "deep", "deep text");
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "from", x.fence->root, "moved", 0), 0);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "gone"), 0);
    assert_int_equal(op_symlink(x.fence, &nobody, x.fence->root, "link", "changed", &answer), 0);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        before[i] = stat_of(&x, paths[i]);

    struct sync_out_result result = hand_over(&x, &t);
    assert_int_equal(result.lost + result.left, 0);
    assert_string_equal(t.log, "f changed\nd dir\nd dir/inner\nf dir/inner/deep\n- from\n- gone\nl link\nf moved\nf new\n");
    assert_int_equal(delta_entries(&x), 0);
    assert_base(&x, "changed", "NEW");
    assert_base(&x, "dir/inner/deep", "deep text");
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
            struct stat now = stat_of(&x, paths[i]);
            assert_int_equal(now.st_ino, before[i].st_ino);
            assert_int_equal(now.st_mode, before[i].st_mode);
            assert_int_equal(now.st_size, before[i].st_size);
            assert_memory_equal(&now.st_mtim, &before[i].st_mtim, sizeof(now.st_mtim));
        }
        assert_null(walk(&x, "gone", NULL));
        assert_null(walk(&x, "from", NULL));
        assert_content(&x, walk(&x, "new", NULL), "new text");
        reopen(&x, all);
    }
    fixture_done(&x);
}

static void a_file_that_stays_open_for_writing_never_changes_the_base(void **state)
{
    struct fixture x;
    struct taker t = { 0 };

    (void) state;
    begin(&x);
    put_file(&x, "base/log", "0");
    fixture_open(&x, all, 0);
    struct inode *log = walk(&x, "log", NULL);
    for (int i = 1; i < 4; i++) {
        struct stat base;
        char text[2] = { (char) ('0' + i), 0 };
        write_text(&x, log, text, i);
        hand_over(&x, &t);
        autodone(buf) struct buf was = BUF_EMPTY, is = BUF_EMPTY;
        assert_int_equal(file_read(x.fd, "base/log", 100, &was), 0);
        assert_int_equal(was.len, i + 1);
        assert_int_equal(fstatat(x.fd, "base/log", &base, 0), 0);
        write_text(&x, log, "X", 0);
        assert_int_equal(file_read(x.fd, "base/log", 100, &is), 0);
        assert_int_equal(is.len, was.len);
        assert_memory_equal(is.data, was.data, was.len);
        write_text(&x, log, "0", 0);
        assert_true(is_there(&x, "delta/data/log"));
    }
    assert_content(&x, log, "0123");
    fixture_done(&x);
}

static void what_is_open_without_a_name_goes_on(void **state)
{
    struct fixture x;
    struct taker t = { 0 };

    (void) state;
    begin(&x);
    put_file(&x, "base/a", "of the base");
    fixture_open(&x, all, 0);
    struct inode *a = walk(&x, "a", NULL), *b = make_file(&x, "", "b", "of the delta");
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "a"), 0);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "b"), 0);
    hand_over(&x, &t);
    assert_string_equal(t.log, "- a\n");
    handles_trim(x.fence);
    assert_content(&x, a, "of the base");
    assert_content(&x, b, "of the delta");
    assert_int_equal(write_text(&x, b, "OF", 0), 2);
    assert_content(&x, b, "OF the delta");
    fixture_done(&x);
}

static void hidden_files_survive_the_removal_of_their_directory(void **state)
{
    static const char *const rules[] = { "/**=write", "**/secret*=none", NULL };
    struct fixture x;
    struct taker t = { 0 };

    (void) state;
    begin(&x);
    put_dir(&x, "base/d");
    put_dir(&x, "base/d/e");
    put_file(&x, "base/d/f", "f");
    put_file(&x, "base/d/e/secret", "s");
    put_file(&x, "base/d/e/g", "g");
    put_dir(&x, "base/plain");
    put_file(&x, "base/plain/h", "h");
    fixture_open(&x, rules, 0);
    assert_int_equal(op_unlink(x.fence, &nobody, walk(&x, "d/e", NULL), "g"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, walk(&x, "d", NULL), "e"), 0);
    assert_int_equal(op_unlink(x.fence, &nobody, walk(&x, "d", NULL), "f"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    assert_int_equal(op_unlink(x.fence, &nobody, walk(&x, "plain", NULL), "h"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "plain"), 0);
    hand_over(&x, &t);
    assert_base(&x, "d/e/secret", "s");
    assert_false(is_there(&x, "base/d/f"));
    assert_false(is_there(&x, "base/d/e/g"));
    assert_false(is_there(&x, "base/plain"));
    for (int i = 0; i < 2; i++) {
        assert_null(walk(&x, "d", NULL));
        assert_null(walk(&x, "plain", NULL));
        reopen(&x, rules);
    }
    /* Another process puts something visible there: it did not exist when the directory was deleted. */
    usleep(20000);
    put_file(&x, "base/d/new", "n");
    make_file(&x, "", "other", "o");
    hand_over(&x, &t);
    assert_base(&x, "d/new", "n");
    assert_base(&x, "d/e/secret", "s");
    assert_content(&x, walk(&x, "d/new", NULL), "n");
    fixture_done(&x);
}

static void a_directory_made_again_shows_no_old_file_after_either(void **state)
{
    static const char *const rules[] = { "/**=write", "**/secret=none", NULL };
    struct fixture x;
    struct taker t = { 0 };

    (void) state;
    begin(&x);
    put_dir(&x, "base/d");
    put_file(&x, "base/d/old", "old");
    put_file(&x, "base/d/same", "old");
    put_file(&x, "base/d/secret", "s");
    fixture_open(&x, rules, 0);
    assert_int_equal(op_unlink(x.fence, &nobody, walk(&x, "d", NULL), "old"), 0);
    assert_int_equal(op_unlink(x.fence, &nobody, walk(&x, "d", NULL), "same"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    make_dir(&x, "", "d");
    make_file(&x, "d", "same", "new");
    hand_over(&x, &t);
    assert_string_equal(t.log, "- d/old\nf d/same\n");
    assert_int_equal(delta_entries(&x), 0);
    for (int i = 0; i < 2; i++) {
        assert_null(walk(&x, "d/old", NULL));
        assert_content(&x, walk(&x, "d/same", NULL), "new");
        assert_null(walk(&x, "d/secret", NULL));
        reopen(&x, rules);
    }
    assert_base(&x, "d/secret", "s");
    fixture_done(&x);
}

static void what_others_put_into_a_new_directory_of_ours_stays(void **state)
{
    struct fixture x;
    struct taker t = { 0 };

    (void) state;
    begin(&x);
    fixture_open(&x, all, 0);
    make_dir(&x, "", "d");
    put_dir(&x, "base/d");
    put_file(&x, "base/d/theirs", "t");
    usleep(20000);
    make_file(&x, "d", "ours", "o");
    hand_over(&x, &t);
    assert_string_equal(t.log, "f d/ours\n");
    assert_base(&x, "d/theirs", "t");
    assert_content(&x, walk(&x, "d/theirs", NULL), "t");
    fixture_done(&x);
}

static void names_of_one_file_become_files(void **state)
{
    struct fixture x;
    struct taker t = { 0 };
    struct entry_answer answer;

    (void) state;
    begin(&x);
    fixture_open(&x, all, 1 << 20);
    struct inode *a = make_file(&x, "", "a", "text");
    assert_int_equal(op_link(x.fence, &nobody, a, x.fence->root, "b", &answer), 0);
    hand_over(&x, &t);
    assert_string_equal(t.log, "f a\nf b\n");
    struct stat sa = stat_of(&x, "a"), sb = stat_of(&x, "b");
    assert_int_not_equal(sa.st_ino, sb.st_ino);
    assert_int_equal(sa.st_nlink, 1);
    write_text(&x, walk(&x, "a", NULL), "TEXT", 0);
    assert_content(&x, walk(&x, "a", NULL), "TEXT");
    assert_content(&x, walk(&x, "b", NULL), "text");
    assert_base(&x, "a", "text");
    assert_base(&x, "b", "text");
    fixture_done(&x);
}

static void the_quota_comes_back(void **state)
{
    struct fixture x;
    struct taker t = { 0 };
    struct fence_stats stats;
    char text[4000];

    (void) state;
    begin(&x);
    fixture_open(&x, all, 20 << 10);
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    for (int i = 0; i < 20; i++) {
        char name[8];
        snprintf(name, sizeof(name), "f%d", i);
        make_file(&x, "", name, text);
        hand_over(&x, &t);
    }
    fence_stats(x.fence, &stats);
    assert_int_equal(stats.used_bytes, 0);
    assert_int_equal(stats.used_inodes, 0);
    fixture_done(&x);
}

static void what_is_not_taken_stays_as_it_is(void **state)
{
    struct fixture x;
    struct taker t = { .fails = -ENOSPC };
    struct sync_out_result result;
    struct err err = ERR_NONE;

    (void) state;
    begin(&x);
    put_dir(&x, "base/d");
    put_file(&x, "base/d/old", "old");
    fixture_open(&x, all, 0);
    struct inode *f = make_file(&x, "", "f", "text");
    assert_int_equal(op_unlink(x.fence, &nobody, walk(&x, "d", NULL), "old"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    make_dir(&x, "", "d");
    assert_int_equal(fence_sync_out(x.fence, take, &t, &result, &err), -ENOSPC);
    assert_int_equal(write_text(&x, f, "TEXT", 0), 4);
    for (int i = 0; i < 2; i++) {
        assert_content(&x, walk(&x, "f", NULL), "TEXT");
        assert_null(walk(&x, "d/old", NULL));
        assert_true(is_there(&x, "base/d/old"));
        assert_false(is_there(&x, "base/f"));
        reopen(&x, all);
    }
    t = (struct taker){ .stays = "f" };
    assert_int_equal(hand_over(&x, &t).left, 1);
    assert_false(is_there(&x, "base/f"));
    assert_content(&x, walk(&x, "f", NULL), "TEXT");
    fixture_done(&x);
}

static int take_and_fail(struct sync_out_change *changes, size_t count, void *cookie, struct err *err)
{
    int r = take(changes, count, cookie, err);

    return r < 0 ? r : err_errno(err, -EINPROGRESS, "taking");
}

/* The callback broke its promise of "all or nothing" and applied everything in the end. */
static void what_was_taken_all_the_same_is_let_go_the_next_time(void **state)
{
    struct fixture x;
    struct taker t = { .x = &x };
    struct sync_out_result result;
    struct err err = ERR_NONE;

    (void) state;
    begin(&x);
    fixture_open(&x, all, 0);
    make_file(&x, "", "f", "text");
    t.base_fd = openat(x.fd, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fence_sync_out(x.fence, take_and_fail, &t, &result, &err), -EINPROGRESS);
    close(t.base_fd);
    handles_trim(x.fence);
    make_file(&x, "", "g", "text");
    hand_over(&x, &t);
    assert_string_equal(t.log, "f g\n");
    assert_content(&x, walk(&x, "f", NULL), "text");
    assert_int_equal(write_text(&x, walk(&x, "f", NULL), "TEXT", 0), 4);
    assert_base(&x, "f", "text");
    fixture_done(&x);
}

static void what_lost_is_the_others_from_now_on(void **state)
{
    struct fixture x;
    struct taker t = { .loses = "f" };

    (void) state;
    begin(&x);
    put_file(&x, "base/f", "base");
    put_file(&x, "base/g", "base");
    fixture_open(&x, all, 0);
    struct inode *f = walk(&x, "f", NULL), *g = walk(&x, "g", NULL);
    write_text(&x, f, "OURS and longer", 0);
    write_text(&x, g, "OURS", 0);
    put_file(&x, "base/f", "theirs");
    assert_int_equal(hand_over(&x, &t).lost, 1);
    assert_content(&x, f, "theirs");
    assert_content(&x, g, "OURS");
    /* It lost to a deletion: a process that has it open keeps it, the name is gone. */
    t.loses = "g";
    write_text(&x, g, "ours", 0);
    assert_int_equal(unlinkat(x.fd, "base/g", 0), 0);
    assert_int_equal(hand_over(&x, &t).lost, 1);
    assert_null(walk(&x, "g", NULL));
    handles_trim(x.fence);
    assert_content(&x, g, "ours");
    /* The losing file is saved elsewhere by now and must not be written any more. */
    assert_int_equal(write_text(&x, g, "OURS", 0), 4);
    assert_content(&x, g, "OURS");
    autodone(buf) struct buf loser = BUF_EMPTY;
    assert_int_equal(file_read(x.fd, "loser", 100, &loser), 0);
    assert_string_equal(loser.data, "ours");
    /* A directory that lost to a file. */
    t.loses = "d";
    t.loses_below = true;
    make_dir(&x, "", "d");
    make_file(&x, "d", "inner", "i");
    put_file(&x, "base/d", "a file");
    assert_true(hand_over(&x, &t).lost >= 2);
    assert_content(&x, walk(&x, "d", NULL), "a file");
    t.loses_below = false;
    /* A deletion itself. */
    t.loses = "f";
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    assert_int_equal(hand_over(&x, &t).lost, 1);
    assert_content(&x, walk(&x, "f", NULL), "theirs");
    fixture_done(&x);
}

static void what_was_handed_over_is_not_mistaken_for_another_file(void **state)
{
    struct fixture x;
    struct taker t = { 0 };

    (void) state;
    begin(&x);
    put_file(&x, "base/f", "base");
    fixture_open(&x, all, 0);
    struct inode *f = walk(&x, "f", NULL);
    write_text(&x, f, "OURS", 0);
    hand_over(&x, &t);
    /* The file that is open goes on being written. */
    assert_int_equal(fence_base_changed(x.fence, (const char *const[]){ "/f" }, 1), 0);
    assert_int_equal(fence_base_changed(x.fence, NULL, 0), 0);
    assert_ptr_equal(walk(&x, "f", NULL), f);
    assert_int_equal(write_text(&x, f, "ours", 0), 4);
    assert_content(&x, walk(&x, "f", NULL), "ours");
    fixture_done(&x);
}

static void a_change_tells_of_what_it_was_made(void **state)
{
    struct fixture x;
    struct taker t = { .asks = "f" };
    struct stat st, later;

    (void) state;
    begin(&x);
    put_file(&x, "base/f", "base");
    assert_int_equal(fstatat(x.fd, "base/f", &st, 0), 0);
    fixture_open(&x, all, 0);
    write_text(&x, walk(&x, "f", NULL), "o", 0);
    /* It was replaced meanwhile, and the process ends too: its number is still known. */
    put_file(&x, "base/f2", "other text");
    assert_int_equal(renameat(x.fd, "base/f2", x.fd, "base/f"), 0);
    reopen(&x, all);
    write_text(&x, walk(&x, "f", NULL), "u", 1);
    assert_int_equal(fstatat(x.fd, "delta/data/f", &later, 0), 0);
    hand_over(&x, &t);
    assert_int_equal(t.was.kind, SYNC_OUT_BASE_PRESENT);
    assert_int_equal(t.was.ino, st.st_ino);
    assert_int_equal(t.was.size_bytes, 4);
    assert_int_equal(t.changed_ns, later.st_ctim.tv_sec * 1000000000LL + later.st_ctim.tv_nsec);
    /* From here on it is the synced file. */
    assert_int_equal(fstatat(x.fd, "base/f", &st, 0), 0);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    hand_over(&x, &t);
    assert_int_equal(t.was.ino, st.st_ino);
    make_file(&x, "", "f", "again");
    hand_over(&x, &t);
    assert_int_equal(t.was.kind, SYNC_OUT_BASE_ABSENT);
    fixture_done(&x);
}

static void promised_directories_and_what_is_no_file_stay(void **state)
{
    static const char *const rules[] = { "/**=read", "/out/deep/=write", "/w/**=write", NULL };
    struct fixture x;
    struct taker t = { 0 };
    struct entry_answer answer;

    (void) state;
    begin(&x);
    put_dir(&x, "base/w");
    fixture_open(&x, rules, 0);
    assert_int_equal(op_mknod(x.fence, &nobody, walk(&x, "w", NULL), "fifo", S_IFIFO | 0644, &answer), 0);
    make_file(&x, "w", "f", "f");
    hand_over(&x, &t);
    assert_string_equal(t.log, "f w/f\n");
    assert_non_null(walk(&x, "w/fifo", NULL));
    assert_non_null(walk(&x, "out/deep", NULL));
    make_file(&x, "out/deep", "g", "g");
    hand_over(&x, &t);
    assert_string_equal(t.log, "d out\nd out/deep\nf out/deep/g\n");
    reopen(&x, rules);
    assert_content(&x, walk(&x, "out/deep/g", NULL), "g");
    assert_non_null(walk(&x, "w/fifo", NULL));
    fixture_done(&x);
}

static void a_moved_tree_is_new_files_and_removals(void **state)
{
    struct fixture x;
    struct taker t = { 0 };

    (void) state;
    begin(&x);
    put_dir(&x, "base/src");
    put_dir(&x, "base/src/sub");
    put_file(&x, "base/src/a", "a");
    put_file(&x, "base/src/sub/b", "b");
    fixture_open(&x, all, 0);
    struct inode *src = walk(&x, "src", NULL);
    uint64_t b = stat_of(&x, "src/sub/b").st_ino;
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "src", x.fence->root, "lib", 0), 0);
    hand_over(&x, &t);
    static const char come[] = "d lib\nf lib/a\nd lib/sub\nf lib/sub/b\n";
    assert_memory_equal(t.log, come, strlen(come));
    /* Removals come in the order of the base, a directory after its content. */
    assert_non_null(strstr(t.log, "- src/sub/b\n- src/sub\n"));
    assert_non_null(strstr(t.log, "- src/a\n"));
    assert_string_equal(t.log + strlen(t.log) - 6, "- src\n");
    assert_int_equal(delta_entries(&x), 0);
    /* It is still the working directory of the process. */
    struct entry_answer answer;
    assert_int_equal(op_lookup(x.fence, &nobody, src, "a", &answer), 0);
    assert_content(&x, answer.inode, "a");
    assert_int_equal(op_mknod(x.fence, &nobody, src, "c", S_IFREG | 0644, &answer), 0);
    hand_over(&x, &t);
    assert_string_equal(t.log, "f lib/c\n");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stat_of(&x, "lib/sub/b").st_ino, b);
        assert_null(walk(&x, "src", NULL));
        reopen(&x, all);
    }
    fixture_done(&x);
}

static void an_operation_that_does_not_end_stops_nothing_but_the_hand_over(void **state)
{
    struct fixture x;
    struct taker t = { 0 };
    struct sync_out_result result;
    struct err err = ERR_NONE;

    (void) state;
    begin(&x);
    fixture_open(&x, all, 0);
    make_file(&x, "", "f", "text");
    pthread_rwlock_rdlock(&x.fence->gate);
    setenv("AGENTFENSE_FAULT", "handover-impatient", 1);
    assert_int_equal(fence_sync_out(x.fence, take, &t, &result, &err), -ETIMEDOUT);
    unsetenv("AGENTFENSE_FAULT");
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    /* The gate is open for others. */
    assert_int_equal(pthread_rwlock_tryrdlock(&x.fence->gate), 0);
    pthread_rwlock_unlock(&x.fence->gate);
    pthread_rwlock_unlock(&x.fence->gate);
    assert_int_equal(t.calls, 0);
    hand_over(&x, &t);
    assert_base(&x, "f", "text");
    fixture_done(&x);
}

static void what_stays_for_something_hidden_in_it_stays_gone(void **state)
{
    static const char *const rules[] = { "/**=write", "**/secret=none", NULL };
    struct fixture x;
    struct taker t = { 0 };

    (void) state;
    begin(&x);
    put_dir(&x, "base/d");
    put_dir(&x, "base/d/e");
    put_file(&x, "base/d/e/secret", "s");
    fixture_open(&x, rules, 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, walk(&x, "d", NULL), "e"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    make_dir(&x, "", "d");
    make_file(&x, "d", "f", "f");
    for (int i = 0; i < 3; i++) {
        hand_over(&x, &t);
        assert_null(walk(&x, "d/e", NULL));
        assert_content(&x, walk(&x, "d/f", NULL), "f");
        assert_base(&x, "d/e/secret", "s");
        reopen(&x, rules);
    }
    fixture_done(&x);
}

/* A recorded number must not be reused, and the log must not grow by files that come and go. */
static void numbers_of_what_was_handed_over_stay_apart(void **state)
{
    struct fixture x;
    struct taker t = { 0 };

    (void) state;
    begin(&x);
    put_file(&x, "base/a", "a");
    fixture_open(&x, all, 0);
    uint64_t a = stat_of(&x, "a").st_ino;
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "a", x.fence->root, "b", 0), 0);
    hand_over(&x, &t);
    /* Another process makes a new file of the old name. */
    put_file(&x, "base/a", "new");
    uint64_t other = stat_of(&x, "a").st_ino;
    assert_int_not_equal(other, a);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stat_of(&x, "b").st_ino, a);
        assert_int_equal(stat_of(&x, "a").st_ino, other);
        reopen(&x, all);
    }
    for (int i = 0; i < 3000; i++) {
        make_file(&x, "", "comes", "");
        assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "comes"), 0);
    }
    assert_int_equal(stat_of(&x, "b").st_ino, a);
    reopen(&x, all);
    struct stat log;
    assert_int_equal(fstatat(x.fd, "delta/meta/numbers", &log, 0), 0);
    assert_true(log.st_size < 1000);
    fixture_done(&x);
}

/* Leaves the delta as a process that is killed after everything is applied and nothing removed. */
static void a_hand_over_that_was_cut_off_is_finished_at_the_next_mount(void **state)
{
    struct fixture x;

    (void) state;
    begin(&x);
    put_dir(&x, "base/d");
    put_file(&x, "base/d/old", "old");
    fixture_open(&x, all, 0);
    assert_int_equal(op_unlink(x.fence, &nobody, walk(&x, "d", NULL), "old"), 0);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    make_dir(&x, "", "d");
    make_file(&x, "d", "new", "new");
    fixture_close(&x);
    static const char note[] = "dd\0fd/new";
    autofd int meta = openat(x.fd, "delta/meta", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_put(meta, "handover", note, sizeof(note), 0600), 0);
    /* Nothing was applied, so nothing changes. */
    fixture_open(&x, all, 0);
    assert_content(&x, walk(&x, "d/new", NULL), "new");
    assert_null(walk(&x, "d/old", NULL));
    fixture_close(&x);
    assert_int_equal(file_put(meta, "handover", note, sizeof(note), 0600), 0);
    assert_int_equal(renameat(x.fd, "delta/data/d/new", x.fd, "base/d/new"), 0);
    assert_int_equal(unlinkat(x.fd, "base/d/old", 0), 0);
    fixture_open(&x, all, 0);
    assert_content(&x, walk(&x, "d/new", NULL), "new");
    assert_false(is_there(&x, "delta/meta/handover"));
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changed_costs_no_taking),
        cmocka_unit_test(the_tree_is_the_same_before_and_after_and_at_the_next_mount),
        cmocka_unit_test(a_file_that_stays_open_for_writing_never_changes_the_base),
        cmocka_unit_test(what_is_open_without_a_name_goes_on),
        cmocka_unit_test(hidden_files_survive_the_removal_of_their_directory),
        cmocka_unit_test(a_directory_made_again_shows_no_old_file_after_either),
        cmocka_unit_test(what_others_put_into_a_new_directory_of_ours_stays),
        cmocka_unit_test(names_of_one_file_become_files),
        cmocka_unit_test(the_quota_comes_back),
        cmocka_unit_test(what_is_not_taken_stays_as_it_is),
        cmocka_unit_test(what_was_taken_all_the_same_is_let_go_the_next_time),
        cmocka_unit_test(what_lost_is_the_others_from_now_on),
        cmocka_unit_test(what_was_handed_over_is_not_mistaken_for_another_file),
        cmocka_unit_test(a_change_tells_of_what_it_was_made),
        cmocka_unit_test(promised_directories_and_what_is_no_file_stay),
        cmocka_unit_test(a_moved_tree_is_new_files_and_removals),
        cmocka_unit_test(an_operation_that_does_not_end_stops_nothing_but_the_hand_over),
        cmocka_unit_test(what_stays_for_something_hidden_in_it_stays_gone),
        cmocka_unit_test(numbers_of_what_was_handed_over_stay_apart),
        cmocka_unit_test(a_hand_over_that_was_cut_off_is_finished_at_the_next_mount),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
