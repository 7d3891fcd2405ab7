#include "store/store.h"

#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "store/db.h"
#include "store/meta.h"

static void read_whole(const char *path, struct buf *out)
{
    autofd int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(fd_read_all(fd, 64 << 20, out), 0);
}

static void write_at(const char *path, off_t at, const char *bytes, size_t len)
{
    autofd int fd = open(path, O_WRONLY | O_CREAT, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_pwrite_full(fd, bytes, len, at), 0);
}

/* It is refused so, and stays as it was. */
static void assert_refused(struct fixture *x, enum err_code code, const char *says)
{
    autodone(buf) struct buf before = BUF_EMPTY, after = BUF_EMPTY;
    struct err problem = ERR_NONE;
    struct store *store = NULL;

    read_whole(x->url, &before);
    assert_true(store_open(x->url, NULL, &store, &problem) < 0);
    assert_null(store);
    if (problem.code != code || !strstr(problem.text, says) || !strstr(problem.text, x->url))
        fail_msg("%s: %s", err_code_name(problem.code), problem.text);
    read_whole(x->url, &after);
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.data, after.data, before.len);
}

static void the_file_is_closed_to_others(void **state)
{
    struct fixture *x = *state;
    static const char *const suffixes[] = { "", "-wal", "-shm" };
    struct stat st;

    must(meta_set(x->store, "a", "b", err));
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        autofree char *path = xprintf("%s%s", x->url, suffixes[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
    }
    store_close(steal_ptr(&x->store));
    assert_int_equal(chmod(x->url, 0644), 0);
    reopen(x);
    assert_int_equal(stat(x->url, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

/* Another process sees who holds a lock on the file. */
static bool is_locked_by_us(const char *path)
{
    pid_t us = getpid(), child = fork();
    int status;

    if (child == 0) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        int fd = open(path, O_RDWR | O_CLOEXEC);
        _exit(fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK || lock.l_pid != us);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void another_connection_drops_no_lock(void **state)
{
    struct fixture *x = *state;
    autofree char *value = NULL;

    must(meta_set(x->store, "a", "b", err));
    assert_true(is_locked_by_us(x->url));
    must(meta_get(x->store, "a", &value, err)); /* on one for reading, which is opened now */
    assert_true(is_locked_by_us(x->url));
}

static void closing_leaves_one_file(void **state)
{
    struct fixture *x = *state;
    autofree char *wal = xprintf("%s-wal", x->url);

    must(meta_set(x->store, "a", "b", err));
    store_close(steal_ptr(&x->store));
    assert_int_equal(access(wal, F_OK), -1);
    assert_int_equal(access(x->url, F_OK), 0);
}

static void a_damaged_file_is_refused_untouched(void **state)
{
    struct fixture *x = *state;

    for (int i = 0; i < 300; i++) {
        autodone(codebase_row) struct codebase_row row = some_codebase("ann", i);
        must(codebase_row_insert(x->store, &row, err));
    }
    store_close(steal_ptr(&x->store));
    write_at(x->url, 3 * 4096 + 100, "garbage garbage garbage garbage", 31);
    write_at(x->url, 5 * 4096, "garbage garbage garbage garbage", 31);
    write_at(x->url, 6 * 4096, "garbage garbage garbage garbage", 31);
    assert_refused(x, ERR_DATA_LOSS, "Restore it from a backup");
}

static void a_file_that_is_no_database_is_refused_untouched(void **state)
{
    struct fixture *x = *state;

    store_close(steal_ptr(&x->store));
    assert_int_equal(truncate(x->url, 0), 0);
    write_at(x->url, 0, "This is my diary, and it is longer than a header of a database, which has one hundred bytes.....", 96);
    write_at(x->url, 4096, "x", 1);
    assert_refused(x, ERR_DATA_LOSS, "damaged");
}

static void another_programs_database_is_refused_untouched(void **state)
{
    struct fixture *x = *state;

    store_close(steal_ptr(&x->store));
    assert_int_equal(unlink(x->url), 0);
    run_sql(x, "CREATE TABLE bookmarks (url TEXT)");
    assert_refused(x, ERR_FAILED_PRECONDITION, "another program");
}

static void a_newer_schema_is_refused(void **state)
{
    struct fixture *x = *state;
    struct err problem = ERR_NONE;
    struct store *store = NULL;

    store_close(steal_ptr(&x->store));
    run_sql(x, on_postgres() ? "INSERT INTO agentfense.schema_version VALUES (99)" : "INSERT INTO schema_version VALUES (99)");
    if (!on_postgres()) {
        assert_refused(x, ERR_FAILED_PRECONDITION, "schema 99");
        return;
    }
    assert_true(store_open(x->url, NULL, &store, &problem) < 0);
    assert_int_equal(problem.code, ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(problem.text, "schema 99"));
}

static void a_link_or_a_directory_is_no_database(void **state)
{
    struct fixture *x = *state;
    autofree char *link = xprintf("%s/link", x->dir), *missing = xprintf("%s/no/such/dir", x->dir);
    struct store *store = NULL;

    assert_int_equal(symlink(x->url, link), 0);
    must_fail(ERR_FAILED_PRECONDITION, store_open(link, NULL, &store, err));
    must_fail(ERR_NOT_FOUND, store_open(missing, NULL, &store, err));
    must_fail(ERR_FAILED_PRECONDITION, store_open(x->dir, NULL, &store, err));
}

static void an_address_that_is_none_is_refused(void **state)
{
    static const char *const urls[] = {
        "", "sqlite:", "/tmp/", "mysql://x/y", "postgresql://[::1/x", "postgres://h/x?nosuch=1"
    };
    struct store *store = NULL;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(urls); i++)
        must_fail(ERR_INVALID_ARGUMENT, store_open(urls[i], NULL, &store, err));
}

static void a_password_is_never_told(void **state)
{
    static const char *const urls[] = {
        "postgresql://ann:topsecret@/db?host=/nonexistent",
        "postgres://ann:topsecret@127.0.0.1:1/db?connect_timeout=1",
        "postgres://ann:top:secret@[::1/x?password=topsecret",
        "postgresql://ann@127.0.0.1:1/db?password=topsecret",
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        struct err problem = ERR_NONE;
        struct store *store = NULL;
        assert_true(store_open(urls[i], NULL, &store, &problem) < 0);
        if (strstr(problem.text, "secret"))
            fail_msg("%s", problem.text);
        assert_non_null(strstr(problem.text, "ann@"));
        assert_int_equal(problem.code, i == 2 ? ERR_INVALID_ARGUMENT : ERR_UNAVAILABLE);
    }
}

static void several_may_open_it_at_once(void **state)
{
    struct fixture *x = *state;
    autoptr(store) other = NULL;
    autofree char *value = NULL;

    must(store_open(x->url, &patient, &other, err));
    must(meta_set(x->store, "a", "1", err));
    must(meta_get(other, "a", &value, err));
    assert_string_equal(value, "1");
    must(meta_set(other, "a", "2", err));
    free(steal_ptr(&value));
    must(meta_get(x->store, "a", &value, err));
    assert_string_equal(value, "2");
}

static void a_lock_of_somebody_else_passes_or_is_told(void **state)
{
    struct fixture *x = *state;
    struct store_options quick = { .busy_timeout_ms = 20, .patience_ms = 50 };
    autoptr(store) hasty = NULL;
    autoptr(db) holder = NULL;

    must(store_open(x->url, &quick, &hasty, err));
    holder = open_raw(x);
    must(db_begin(holder, err));
    must_fail(ERR_UNAVAILABLE, meta_set(hasty, "a", "1", err));
    db_rollback(holder);
    must(meta_set(hasty, "a", "2", err));
}

static void calls_are_counted(void **state)
{
    struct fixture *x = *state;
    struct store_stats stats;
    char *value = NULL;
    uint64_t total = 0;

    must(meta_set(x->store, "a", "b", err));
    must_fail(ERR_NOT_FOUND, meta_get(x->store, "no", &value, err));
    store_stats(x->store, &stats);
    assert_string_equal(stats.calls[STORE_CALL_META_SET].name, "meta_set");
    assert_int_equal(stats.calls[STORE_CALL_META_SET].count, 1);
    assert_int_equal(stats.calls[STORE_CALL_META_GET].count, 1);
    assert_int_equal(stats.calls[STORE_CALL_META_GET].failures, 0);
    assert_true(stats.calls[STORE_CALL_META_SET].sum_ns > 0);
    for (int i = 0; i < STORE_CALL_BUCKETS; i++)
        total += stats.calls[STORE_CALL_META_SET].buckets[i];
    assert_int_equal(total, 1);
    assert_int_equal(stats.writes, 1);
    assert_int_equal(stats.commits, 1);
    must(store_ping(x->store, err));
}

static void bounds_of_buckets_grow(void **state)
{
    struct store_metrics meter = { 0 };

    (void) state;
    store_metrics_add(&meter, STORE_CALL_META_GET, 0, false);
    store_metrics_add(&meter, STORE_CALL_META_GET, 16000, false);
    store_metrics_add(&meter, STORE_CALL_META_GET, 16001, true);
    store_metrics_add(&meter, STORE_CALL_META_GET, INT64_MAX, false);
    assert_int_equal(meter.calls[STORE_CALL_META_GET].buckets[0], 2);
    assert_int_equal(meter.calls[STORE_CALL_META_GET].buckets[1], 1);
    assert_int_equal(meter.calls[STORE_CALL_META_GET].buckets[STORE_CALL_BUCKETS - 1], 1);
    assert_int_equal(meter.calls[STORE_CALL_META_GET].failures, 1);
    for (unsigned i = 1; i < STORE_CALL_BUCKETS; i++)
        assert_true(store_metrics_bucket_end_ns(i) > store_metrics_bucket_end_ns(i - 1));
}

static void many_kinds_of_statements_fit(void **state)
{
    struct fixture *x = *state;

    /* More different texts than a connection keeps. */
    for (unsigned statuses = 1; statuses < SANDBOX_STATUS_ANY; statuses++) {
        int64_t count = -1;
        must(sandbox_row_count(x->store, &(struct sandbox_filter){ .statuses = statuses, .owner_id = "ann" }, &count, err));
        assert_int_equal(count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(a_newer_schema_is_refused),
        store_test(an_address_that_is_none_is_refused),
        store_test(a_password_is_never_told),
        store_test(several_may_open_it_at_once),
        store_test(calls_are_counted),
        store_test(bounds_of_buckets_grow),
        store_test(many_kinds_of_statements_fit),
    };
    const struct CMUnitTest of_files[] = {
        store_test(the_file_is_closed_to_others),
        store_test(another_connection_drops_no_lock),
        store_test(closing_leaves_one_file),
        store_test(a_damaged_file_is_refused_untouched),
        store_test(a_file_that_is_no_database_is_refused_untouched),
        store_test(another_programs_database_is_refused_untouched),
        store_test(a_link_or_a_directory_is_no_database),
        store_test(a_lock_of_somebody_else_passes_or_is_told),
    };
    int failed = chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);

    return on_postgres() ? failed : failed + cmocka_run_group_tests(of_files, NULL, NULL);
}
