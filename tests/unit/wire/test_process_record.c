#include "fixture.h"

#include <signal.h>

#include "base/file.h"
#include "base/mem.h"
#include "wire/process_log.h"
#include "wire/process_record.h"

#define NAME "pr_0123456789abcdef"
#define OTHER "pr_fedcba9876543210"

static char path[32];

/* A sandbox's directory. */
static int setup(void **state)
{
    static int fd;

    strcpy(path, "/tmp/af-record-XXXXXX");
    if (!mkdtemp(path))
        return -1;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &fd;
    return fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    int fd = *(int *) *state, r = file_remove_tree(fd, PROCESS_DIR);

    close(fd);
    return rmdir(path) < 0 || r < 0 ? -1 : 0;
}

static struct process_record full(const char *name, int64_t started_ns)
{
    struct process_record record = { .pid = 42,
                                     .is_tty = true,
                                     .has_exited = true,
                                     .started_ns = started_ns,
                                     .stopped_ns = started_ns + 1,
                                     .end = CTL_END_SIGNALED,
                                     .status = SIGKILL,
                                     .user_us = 1,
                                     .system_us = 2,
                                     .max_rss_kib = 3,
                                     .lost_bytes = UINT64_MAX,
                                     .command = xdup("sh -c 'x\xff'"),
                                     .note = xdup("{\"name\":\"x\"}") };

    memcpy(record.name, name, strlen(name) + 1);
    return record;
}

static void every_field_survives_the_way(void **state)
{
    autodone(process_record) struct process_record record = full(NAME, 7), got = { 0 };
    autofd int dir = process_dir_open(*(int *) *state, true);

    assert_true(dir >= 0);
    assert_int_equal(process_record_store(dir, &record), 0);
    assert_int_equal(process_record_load(dir, NAME, &got), 0);
    assert_string_equal(got.name, NAME);
    assert_string_equal(got.command, record.command);
    assert_string_equal(got.note, record.note);
    assert_true(got.pid == 42 && got.is_tty && got.has_exited && got.started_ns == 7 && got.stopped_ns == 8);
    assert_true(got.end == CTL_END_SIGNALED && got.status == SIGKILL && got.user_us == 1 && got.system_us == 2);
    assert_true(got.max_rss_kib == 3 && got.lost_bytes == UINT64_MAX);
}

static void a_long_command_is_cut_and_not_refused(void **state)
{
    autodone(process_record) struct process_record record = full(NAME, 7), got = { 0 };
    autofd int dir = process_dir_open(*(int *) *state, true);

    free(record.command);
    record.command = xalloc(PROCESS_COMMAND_MAX * 2);
    memset(record.command, 'x', PROCESS_COMMAND_MAX * 2 - 1);
    assert_int_equal(process_record_store(dir, &record), 0);
    assert_int_equal(process_record_load(dir, NAME, &got), 0);
    assert_int_equal(strlen(got.command), PROCESS_COMMAND_MAX - 1);
}

static void what_is_no_record_is_left_out(void **state)
{
    autodone(process_record) struct process_record later = full(NAME, 9), earlier = full(OTHER, 5), got = { 0 };
    autodone(process_record_list) struct process_record_list list = { 0 };
    autofd int dir = process_dir_open(*(int *) *state, true);
    autodone(buf) struct buf bytes = BUF_EMPTY;

    assert_int_equal(process_record_store(dir, &later), 0);
    assert_int_equal(process_record_store(dir, &earlier), 0);
    assert_int_equal(file_read(dir, NAME ".record", 65536, &bytes), 0);
    /* Cut short anywhere, or longer, or under another's name. */
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_equal(file_put(dir, "pr_0000000000000000.record", bytes.data, len, 0600), 0);
        assert_true(process_record_load(dir, "pr_0000000000000000", &got) < 0);
    }
    assert_int_equal(file_put(dir, "pr_0000000000000000.record", bytes.data, bytes.len, 0600), 0);
    assert_int_equal(process_record_load(dir, "pr_0000000000000000", &got), -EBADMSG);
    buf_add_char(&bytes, 'x');
    assert_int_equal(file_put(dir, "pr_0000000000000000.record", bytes.data, bytes.len, 0600), 0);
    assert_true(process_record_load(dir, "pr_0000000000000000", &got) < 0);
    assert_int_equal(file_put(dir, "x.record", "x", 1, 0600), 0);
    assert_int_equal(process_record_list_load(dir, &list), 0);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[0].name, OTHER);
    assert_string_equal(list.items[1].name, NAME);
}

static void names_that_are_no_ids_are_never_opened(void **state)
{
    autofd int dir = process_dir_open(*(int *) *state, true);
    struct process_record got;

    assert_int_equal(process_record_load(dir, "../spec", &got), -ENOENT);
    assert_int_equal(process_record_load(dir, "", &got), -ENOENT);
}

static void removing_takes_the_log_along_and_no_other(void **state)
{
    autodone(process_record) struct process_record one = full(NAME, 1), two = full(OTHER, 2), got = { 0 };
    autofd int dir = process_dir_open(*(int *) *state, true);
    struct process_log log;

    assert_int_equal(process_record_store(dir, &one), 0);
    assert_int_equal(process_record_store(dir, &two), 0);
    file_put(dir, NAME ".0.log", "a", 1, 0600);
    file_put(dir, OTHER ".0.log", "b", 1, 0600);
    process_record_remove(dir, NAME);
    assert_int_equal(process_record_load(dir, NAME, &got), -ENOENT);
    assert_int_equal(process_log_find(dir, NAME, &log), -ENOENT);
    assert_int_equal(process_log_find(dir, OTHER, &log), 0);
    assert_int_equal(process_record_load(dir, OTHER, &got), 0);
}

static void a_log_is_read_across_its_files(void **state)
{
    autofd int dir = process_dir_open(*(int *) *state, true);
    struct process_log log;
    char bytes[16];

    file_put(dir, NAME ".100.log", "abcde", 5, 0600);
    file_put(dir, NAME ".105.log", "fgh", 3, 0600);
    file_put(dir, NAME ".x.log", "no", 2, 0600);
    file_put(dir, NAME ".99999999999999999999.log", "no", 2, 0600);
    assert_int_equal(process_log_find(dir, NAME, &log), 0);
    assert_true(log.count == 2 && log.first == 100 && log.end == 108);
    assert_int_equal(process_log_read(dir, NAME, &log, 102, bytes, sizeof(bytes)), 3);
    assert_memory_equal(bytes, "cde", 3);
    assert_int_equal(process_log_read(dir, NAME, &log, 105, bytes, sizeof(bytes)), 3);
    assert_memory_equal(bytes, "fgh", 3);
    assert_int_equal(process_log_read(dir, NAME, &log, 108, bytes, sizeof(bytes)), 0);
    assert_int_equal(process_log_read(dir, NAME, &log, 99, bytes, sizeof(bytes)), -ENOENT);
    assert_int_equal(process_log_read(dir, NAME, &log, 101, bytes, 2), 2);
}

#define dir_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        dir_test(every_field_survives_the_way),
        dir_test(a_long_command_is_cut_and_not_refused),
        dir_test(what_is_no_record_is_left_out),
        dir_test(names_that_are_no_ids_are_never_opened),
        dir_test(removing_takes_the_log_along_and_no_other),
        dir_test(a_log_is_read_across_its_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
