/* A disk without room. Only with SQLite: a PostgreSQL server's disk is its own. */
#include "fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../own_namespace.h"

#include "base/fd.h"
#include "store/db.h"

#define BIG 20000

/* Bytes that make a row weigh something. */
static struct sandbox_row heavy_sandbox(void)
{
    struct sandbox_row row = some_sandbox("ann", "", 1);

    for (int i = 0; i < BIG; i++)
        buf_add_char(&row.extra, (char) ('a' + i % 26));
    return row;
}

struct told {
    char *ids[1000]; /* owned */
    size_t count;
};

static void told_done(struct told *told)
{
    for (size_t i = 0; i < told->count; i++)
        free(told->ids[i]);
}

/* Until there is no room; the one that failed is not there, also not in part, and the message is one for people. */
static void fill(struct store *store, struct told *told)
{
    for (;;) {
        autodone(sandbox_row) struct sandbox_row row = heavy_sandbox(), got = { 0 };
        struct err problem = ERR_NONE;
        int r = sandbox_row_insert(store, &row, NULL, &problem);
        if (r < 0) {
            if (r != -ENOSPC || problem.code != ERR_RESOURCE_EXHAUSTED || !strstr(problem.text, "no room"))
                fail_msg("%d: %s", r, problem.text);
            must_fail(ERR_NOT_FOUND, sandbox_row_get(store, row.id, &got, err));
            return;
        }
        assert_in_range(told->count, 0, ARRAY_LEN(told->ids) - 1);
        told->ids[told->count++] = xdup(row.id);
    }
}

static void assert_all_there(struct store *store, const struct told *told)
{
    for (size_t i = 0; i < told->count; i++) {
        autodone(sandbox_row) struct sandbox_row got = { 0 };
        must(sandbox_row_get(store, told->ids[i], &got, err));
        assert_int_equal(got.extra.len, BIG + 2);
    }
}

static void insert_one(struct store *store, struct told *told)
{
    autodone(sandbox_row) struct sandbox_row row = heavy_sandbox();

    must(sandbox_row_insert(store, &row, NULL, err));
    told->ids[told->count++] = xdup(row.id);
}

/* ---- a file system ---- */

static void a_full_file_system_loses_nothing_and_passes(void **state)
{
    struct fixture *x = *state;
    __attribute__((cleanup(told_done))) struct told told = { .count = 0 };
    autofree char *dir = xprintf("%s/small", x->dir), *path = xprintf("%s/metadata.db", dir),
                  *ballast = xprintf("%s/ballast", dir);
    struct store *store = NULL;
    autofd int fd = -1;
    size_t before;

    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(mount("none", dir, "tmpfs", 0, "size=4m"), 0);
    must(store_open(path, NULL, &store, err));
    insert_one(store, &told);
    fd = open(ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_full(fd, "x", 1), 0);
    assert_int_equal(posix_fallocate(fd, 0, 2 << 20), 0);
    fill(store, &told);
    fill(store, &told); /* it stays so, and stays calm */
    before = told.count;
    assert_all_there(store, &told); /* reading goes on */
    assert_int_equal(unlink(ballast), 0);
    assert_int_equal(close(steal_fd(&fd)), 0);
    insert_one(store, &told);
    fill(store, &told);
    assert_true(told.count > before + 1);
    store_close(store);
    assert_int_equal(mount("none", dir, "tmpfs", MS_REMOUNT, "size=16m"), 0);
    must(store_open(path, NULL, &store, err));
    assert_all_there(store, &told);
    store_close(store);
    assert_int_equal(umount(dir), 0);
}

static int unmount_and_teardown(void **state)
{
    struct fixture *x = *state;
    autofree char *dir = xprintf("%s/small", x->dir);

    umount2(dir, MNT_DETACH); /* after a failure it is there still */
    return fixture_teardown(state);
}

/* ---- a limit of the process ---- */

static void a_file_that_may_not_grow_loses_nothing_and_passes(void **state)
{
    struct fixture *x = *state;
    __attribute__((cleanup(told_done))) struct told told = { .count = 0 };
    struct rlimit old, small;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    small = (struct rlimit){ .rlim_cur = 1 << 20, .rlim_max = old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fill(x->store, &told);
    assert_true(told.count > 5);
    assert_all_there(x->store, &told);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    insert_one(x->store, &told);
    reopen(x);
    assert_all_there(x->store, &told);
}

static void a_new_database_without_room_is_told(void **state)
{
    struct fixture *x = *state;
    autofree char *path = xprintf("%s/other.db", x->dir);
    struct rlimit old, small;
    struct store *store = NULL;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    small = (struct rlimit){ .rlim_cur = 4096, .rlim_max = old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    must_fail(ERR_RESOURCE_EXHAUSTED, store_open(path, NULL, &store, err));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    must(store_open(path, NULL, &store, err));
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(a_file_that_may_not_grow_loses_nothing_and_passes),
        store_test(a_new_database_without_room_is_told),
    };
    const struct CMUnitTest with_mounts[] = {
        cmocka_unit_test_setup_teardown(a_full_file_system_loses_nothing_and_passes, fixture_setup, unmount_and_teardown),
    };
    int failed;

    if (on_postgres()) {
        printf("skipped: the disk of a PostgreSQL server is its own\n");
        return TEST_SKIPPED;
    }
    failed = chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
    if (own_namespace_enter())
        failed += cmocka_run_group_tests(with_mounts, NULL, NULL);
    else
        printf("skipped: a_full_file_system_loses_nothing_and_passes: nothing can be mounted here\n");
    return failed;
}
