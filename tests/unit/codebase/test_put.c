#include "codebase_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>

#include "../own_namespace.h"

#include "base/coverage.h"

static void an_upload_tells_size_and_hashes(void **state)
{
    struct world *w = *state;
    struct codebase_put_result result;

    assert_ok(try_put(w, "/a.txt", "hello", CODEBASE_PUT_SAME_MODE, &result, e_));
    assert_int_equal(result.size_bytes, 5);
    assert_string_equal(result.md5, "5d41402abc4b2a76b9719d911017c592");
    assert_string_equal(result.sha256, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    assert_int_equal(result.version, 1);
    assert_file(w, "a.txt", "hello");
    assert_counts(w);
}

static void an_empty_file_is_one(void **state)
{
    struct world *w = *state;

    put(w, "empty", "");
    assert_file(w, "empty", "");
    assert_int_equal(mode_of(w, "empty") & 0777, 0644);
}

static void an_overwritten_file_keeps_its_executable_bit(void **state)
{
    struct world *w = *state;

    assert_ok(try_put(w, "run", "1", 0755, NULL, e_));
    put(w, "run", "2");
    assert_int_equal(mode_of(w, "run") & 0777, 0755);
    assert_ok(try_put(w, "run", "3", 0644, NULL, e_));
    assert_int_equal(mode_of(w, "run") & 0777, 0644);
    assert_file_at(w, 1, "run", "1");
    assert_file_at(w, 2, "run", "2");
}

static void a_reader_keeps_the_file_it_opened(void **state)
{
    struct world *w = *state;
    autofree char *got = NULL;
    autofd int fd = -1;
    struct stat st;

    put(w, "f", "old");
    assert_ok(codebase_get_open(w->cb, "f", &fd, &st, e_));
    put(w, "f", "new");
    got = text_of(fd);
    assert_string_equal(got, "old");
}

static void an_aborted_upload_leaves_nothing(void **state)
{
    struct world *w = *state;
    struct codebase_put *p = NULL;

    assert_ok(codebase_put_begin(w->cb, "f", -1, NULL, &p, e_));
    assert_ok(codebase_put_write(p, "text", 4, e_));
    codebase_put_free(p);
    assert_absent(w, "f");
    assert_int_equal(names_in(w, "stage"), 0);
    assert_int_equal(version_now(w), 0);
}

static void paths_are_cleaned_and_those_that_lead_out_refused(void **state)
{
    struct world *w = *state;
    char name[300] = "", deep[1200] = "";
    struct err err;

    put(w, "//a/./b/../c", "1");
    assert_file(w, "a/c", "1");
    put(w, "..foo", "2");
    put(w, "...", "3");
    assert_file(w, "..foo", "2");
    memset(name, 'x', 256);
    for (int i = 0; i < 200; i++)
        strcat(deep, "d/");
    strcat(deep, "f");
    const char *const bad[] = { "",          "/",  ".", "a/..", "..", "../x", "a/../../x", "/../x", ".wh.x", "d/.wh..wh..opq",
                                "d/.wh.x/y", name, deep };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        err = ERR_NONE;
        assert_true(try_put(w, bad[i], "x", 0644, NULL, &err) < 0);
        assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    }
    assert_true(try_put(w, "../x", "x", 0644, NULL, &err) < 0);
    assert_string_equal(err.text, "path traversal not allowed");
    name[255] = 0;
    put(w, name, "long");
}

static void something_of_another_kind_in_the_way_is_an_error(void **state)
{
    struct world *w = *state;
    struct err err = ERR_NONE;

    put(w, "d/f", "1");
    assert_int_equal(try_put(w, "d", "x", 0644, NULL, &err), -EISDIR);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_int_equal(try_put(w, "d/f/g", "x", 0644, NULL, &err), -ENOTDIR);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_file(w, "d/f", "1");
    assert_int_equal(version_now(w), 1);
}

static void the_quota_counts_what_was_replaced(void **state)
{
    struct world *w = *state;
    struct err err = ERR_NONE;

    w->options.quota_bytes = 10;
    world_reopen(w);
    put(w, "f", "1234");
    put(w, "f", "5678");
    assert_int_equal(try_put(w, "f", "abc", 0644, NULL, &err), -EDQUOT);
    assert_int_equal(err.code, ERR_RESOURCE_EXHAUSTED);
    assert_file(w, "f", "5678");
    assert_int_equal(version_now(w), 2);
    assert_int_equal(names_in(w, "stage"), 0);
    assert_true(try_put(w, "g", "12345678901", 0644, NULL, &err) < 0);
    /* Making it smaller is always possible. */
    struct codebase_txn *txn = begin(w);
    struct codebase_change change = { "f", clock_wall_ns(), CODEBASE_UNSEEN };
    assert_ok(codebase_txn_remove(txn, &change, e_));
    commit(txn, NULL);
    assert_absent(w, "f");
}

/* An upload without end must not fill the disk before its commit is weighed. */
static void an_upload_is_refused_as_soon_as_it_outgrows_the_quota(void **state)
{
    struct world *w = *state;
    autoptr(codebase_put) put = NULL;
    struct err err = ERR_NONE;

    w->options.quota_bytes = 10;
    world_reopen(w);
    assert_ok(codebase_put_begin(w->cb, "f", 0644, "tester", &put, e_));
    assert_ok(codebase_put_write(put, "1234567890", 10, e_));
    assert_int_equal(codebase_put_write(put, "1", 1, &err), -EDQUOT);
    assert_int_equal(err.code, ERR_RESOURCE_EXHAUSTED);
}

/* ---- a directory that is swapped with a symlink all the time ---- */

struct swapping {
    int dirfd;
    _Atomic bool is_over;
};

static void *swap(void *cookie)
{
    struct swapping *s = cookie;

    while (!s->is_over)
        renameat2(s->dirfd, "dir", s->dirfd, "link", RENAME_EXCHANGE);
    return NULL;
}

static void no_race_leads_through_a_symlink(void **state)
{
    struct world *w = *state;
    struct swapping s = { .dirfd = codebase_files_fd(w->cb) };
    autofree char *outside = xprintf("%s/outside", w->dir);
    pthread_t thread;
    int got = 0;

    assert_int_equal(mkdirat(w->fd, "outside", 0755), 0);
    autofd int out = path_open_beneath(w->fd, "outside", O_RDONLY | O_DIRECTORY, 0);
    assert_int_equal(file_put(out, "f", "secret", 6, 0644), 0);
    put(w, "dir/f", "inside");
    assert_int_equal(symlinkat(outside, codebase_files_fd(w->cb), "link"), 0);
    assert_int_equal(pthread_create(&thread, NULL, swap, &s), 0);
    for (int i = 0; i < 1000; i++) {
        struct err err = ERR_NONE;
        struct stat st;
        int fd;

        if (codebase_get_open(w->cb, "dir/f", &fd, &st, &err) >= 0) {
            autofree char *text = text_of(fd);
            assert_string_equal(text, "inside");
            close(fd);
            got++;
        }
        if (i % 5 == 0)
            (void) try_put(w, "dir/new", "inside", 0644, NULL, &err);
        if (i % 5 == 1)
            (void) try_put(w, "dir/f", "inside", 0644, NULL, &err);
    }
    s.is_over = true;
    pthread_join(thread, NULL);
    struct stat st;
    assert_int_equal(fstatat(out, "new", &st, 0), -1);
    autodone(buf) struct buf text = BUF_EMPTY;
    assert_int_equal(file_read(out, "f", 100, &text), 0);
    assert_string_equal(text.data, "secret");
    print_message("opened %d of 1000\n", got);
}

/* ---- a disk that is full ---- */

/* In a child with a mount of its own. 77: the kernel does not let us. */
static int on_a_small_disk(struct world *w, int (*body)(struct world *w))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (!own_namespace_enter() || mount("tmpfs", w->root, "tmpfs", 0, "size=1m,nr_inodes=60") < 0)
            _exit(77);
        coverage_exit(body(w));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

#define expect(condition)                                                                                                      \
    if (!(condition)) {                                                                                                        \
        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                        \
        return 1;                                                                                                              \
    }

static int fill_it(struct world *w)
{
    autoptr(codebases) all = NULL;
    autofree char *large = xalloc(400000);
    struct codebase_info before, after;
    struct err err = ERR_NONE;
    struct world inner = *w;
    int r = 0, refused_files = 0;

    memset(large, 'x', 399999);
    expect(codebases_open(w->root, NULL, &all, &err) >= 0);
    inner.all = all;
    expect(codebase_create(all, ID, &inner.cb, &err) >= 0);
    expect(try_put(&inner, "one", large, 0644, NULL, &err) >= 0);
    expect(try_put(&inner, "two", large, 0644, NULL, &err) >= 0);
    expect(codebase_info(inner.cb, &before, &err) >= 0);
    expect(try_put(&inner, "three", large, 0644, NULL, &err) == -ENOSPC);
    expect(err.code == ERR_RESOURCE_EXHAUSTED);
    expect(codebase_info(inner.cb, &after, &err) >= 0);
    expect(before.version == after.version && before.size_bytes == after.size_bytes);
    /* Now inodes. Each refusal leaves what was there before, counted right, and no rubbish. */
    for (int i = 0; i < 60; i++) {
        char name[32];

        snprintf(name, sizeof(name), "d%d/e/f", i);
        r = try_put(&inner, name, "x", 0644, NULL, &err);
        refused_files += r == -ENOSPC;
        expect(r >= 0 || r == -ENOSPC);
        expect(codebase_settle(inner.cb, &err) >= 0);
        expect(codebase_info(inner.cb, &before, &err) >= 0 && codebase_recount(inner.cb, &after, &err) >= 0);
        expect(before.file_count == after.file_count && before.undo_bytes == after.undo_bytes);
        struct stat st;
        expect((fstatat(codebase_files_fd(inner.cb), name, &st, 0) == 0) == (r >= 0));
    }
    expect(refused_files > 0);
    codebase_close(inner.cb);
    return 0;
}

static void a_full_disk_refuses_and_changes_nothing(void **state)
{
    int r = on_a_small_disk(*state, fill_it);

    if (r == 77)
        skip();
    assert_int_equal(r, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(an_upload_tells_size_and_hashes),
        world_test(an_empty_file_is_one),
        world_test(an_overwritten_file_keeps_its_executable_bit),
        world_test(a_reader_keeps_the_file_it_opened),
        world_test(an_aborted_upload_leaves_nothing),
        world_test(paths_are_cleaned_and_those_that_lead_out_refused),
        world_test(something_of_another_kind_in_the_way_is_an_error),
        world_test(the_quota_counts_what_was_replaced),
        world_test(an_upload_is_refused_as_soon_as_it_outgrows_the_quota),
        world_test(no_race_leads_through_a_symlink),
        world_test(a_full_disk_refuses_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
