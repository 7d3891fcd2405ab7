#include "fixture.h"

#include <signal.h>

#include "wire/init_proto.h"

static const struct init_report reports[] = {
    { .type = INIT_REPORT_HELLO, .hello = { .version = 1, .pid = 1, .flags = INIT_HELLO_ALL } },
    { .type = INIT_REPORT_HELLO, .hello = { .version = UINT32_MAX, .pid = INT32_MAX } },
    { .type = INIT_REPORT_SPAWNED, .id = 1, .spawned = { .pid = 4321 } },
    { .type = INIT_REPORT_SPAWN_FAILED, .id = UINT64_MAX, .spawn_failed = { .error = ENOENT, .step = INIT_STEP_EXEC } },
    { .type = INIT_REPORT_SPAWN_FAILED, .id = 2, .spawn_failed = { .error = EAGAIN, .step = INIT_STEP_REQUEST } },
    { .type = INIT_REPORT_PTY, .id = 3 },
    { .type = INIT_REPORT_EXITED,
      .id = 4,
      .exited = { .status = 255 << 8, .user_us = UINT64_MAX, .system_us = 1, .max_rss_kib = 2 } },
    { .type = INIT_REPORT_EXITED, .id = 5, .exited = { .status = SIGSEGV | 0x80 } },
    { .type = INIT_REPORT_GONE, .id = 6 },
};

static const struct init_request requests[] = {
    { .type = INIT_REQUEST_KILL, .id = 1, .kill = { .signal = SIGKILL, .scope = INIT_KILL_TREE } },
    { .type = INIT_REQUEST_KILL, .id = UINT64_MAX, .kill = { .signal = 64, .scope = INIT_KILL_MAIN } },
    { .type = INIT_REQUEST_KILL, .id = 2, .kill = { .signal = 1, .scope = INIT_KILL_BELOW, .since_ticks = UINT64_MAX - 1 } },
    { .type = INIT_REQUEST_SHUTDOWN },
};

static void add_descriptors(struct frame *frame)
{
    if (frame->type == INIT_REPORT_PTY)
        frame->fds[frame->fd_count++] = 0;
}

/* Encoded again, what was decoded is the same bytes: every field survived. */
static void every_report_survives_the_way(void **state)
{
    char first[INIT_PROTO_SMALL_MAX], second[INIT_PROTO_SMALL_MAX];

    (void) state;
    for (size_t i = 0; i < count_of(reports); i++) {
        struct init_report got;
        struct frame a, b;

        assert_int_equal(init_report_encode(&reports[i], first, sizeof(first), &a), 0);
        add_descriptors(&a);
        assert_int_equal(init_report_decode(&a, &got), 0);
        assert_int_equal(got.type, reports[i].type);
        assert_true(got.id == reports[i].id);
        assert_int_equal(init_report_encode(&got, second, sizeof(second), &b), 0);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(first, second, a.len);
    }
}

static void fields_arrive_in_their_places(void **state)
{
    char bytes[INIT_PROTO_SMALL_MAX];
    struct init_report got;
    struct frame frame;

    (void) state;
    init_report_encode(&reports[3], bytes, sizeof(bytes), &frame);
    assert_int_equal(init_report_decode(&frame, &got), 0);
    assert_int_equal(got.spawn_failed.error, ENOENT);
    assert_int_equal(got.spawn_failed.step, INIT_STEP_EXEC);
    init_report_encode(&reports[6], bytes, sizeof(bytes), &frame);
    assert_int_equal(init_report_decode(&frame, &got), 0);
    assert_int_equal(got.exited.status, 255 << 8);
    assert_true(got.exited.user_us == UINT64_MAX && got.exited.system_us == 1 && got.exited.max_rss_kib == 2);
}

static void every_request_survives_the_way(void **state)
{
    char bytes[INIT_PROTO_SMALL_MAX];

    (void) state;
    for (size_t i = 0; i < count_of(requests); i++) {
        struct init_request got;
        struct frame frame;

        assert_int_equal(init_request_encode(&requests[i], bytes, sizeof(bytes), &frame), 0);
        assert_int_equal(init_request_decode(&frame, &got), 0);
        assert_int_equal(got.type, requests[i].type);
        assert_true(got.id == requests[i].id);
        if (got.type == INIT_REQUEST_KILL) {
            assert_int_equal(got.kill.signal, requests[i].kill.signal);
            assert_int_equal(got.kill.scope, requests[i].kill.scope);
            assert_true(got.kill.since_ticks == requests[i].kill.since_ticks);
        }
    }
}

static void refuse_report(const struct frame *frame)
{
    struct init_report got = { .id = 99 };

    assert_int_equal(init_report_decode(frame, &got), -EPROTO);
    assert_true(got.id == 99);
}

static void refuse_request(const struct frame *frame)
{
    struct init_request got = { .id = 99 };

    assert_int_equal(init_request_decode(frame, &got), -EPROTO);
    assert_true(got.id == 99);
}

/* Every prefix of a message, and every message with a byte more. */
static void bytes_missing_or_left_over_are_refused(void **state)
{
    char bytes[INIT_PROTO_SMALL_MAX + 1] = { 0 };
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(reports); i++) {
        init_report_encode(&reports[i], bytes, sizeof(bytes), &frame);
        add_descriptors(&frame);
        size_t whole = frame.len;
        for (frame.len = 0; frame.len <= whole + 1; frame.len++)
            if (frame.len != whole)
                refuse_report(&frame);
    }
    for (size_t i = 0; i < count_of(requests); i++) {
        init_request_encode(&requests[i], bytes, sizeof(bytes), &frame);
        size_t whole = frame.len;
        for (frame.len = 0; frame.len <= whole + 1; frame.len++)
            if (frame.len != whole)
                refuse_request(&frame);
    }
}

static void descriptors_belong_to_a_pty_only(void **state)
{
    char bytes[INIT_PROTO_SMALL_MAX];
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(reports); i++) {
        init_report_encode(&reports[i], bytes, sizeof(bytes), &frame);
        frame.fd_count = frame.type == INIT_REPORT_PTY ? 0 : 1;
        refuse_report(&frame);
        frame.fd_count = 2;
        refuse_report(&frame);
    }
    for (size_t i = 0; i < count_of(requests); i++) {
        init_request_encode(&requests[i], bytes, sizeof(bytes), &frame);
        frame.fd_count = 1;
        refuse_request(&frame);
    }
}

static void unknown_types_are_refused_in_both_directions(void **state)
{
    char bytes[INIT_PROTO_SMALL_MAX] = { 1, 1, 1, 1 };

    (void) state;
    for (unsigned type = 0; type <= UINT16_MAX; type++) {
        struct frame frame = { .type = (uint16_t) type, .id = 1, .payload = bytes };

        for (frame.len = 0; frame.len < 3; frame.len++) {
            if (type < INIT_REPORT_HELLO || type > INIT_REPORT_GONE)
                refuse_report(&frame);
            if (type < INIT_REQUEST_SPAWN || type > INIT_REQUEST_SHUTDOWN)
                refuse_request(&frame);
        }
    }
}

static void values_out_of_range_are_neither_sent_nor_taken(void **state)
{
    static const struct init_report bad[] = {
        { .type = INIT_REPORT_HELLO, .id = 1, .hello = { .version = 1, .pid = 1 } },
        { .type = INIT_REPORT_HELLO, .hello = { .version = 1, .pid = 0 } },
        { .type = INIT_REPORT_HELLO, .hello = { .version = 1, .pid = 0x80000000u } },
        { .type = INIT_REPORT_HELLO, .hello = { .version = 1, .pid = 1, .flags = INIT_HELLO_ALL + 1 } },
        { .type = INIT_REPORT_SPAWNED, .id = 0, .spawned = { .pid = 1 } },
        { .type = INIT_REPORT_SPAWNED, .id = 1, .spawned = { .pid = 0 } },
        { .type = INIT_REPORT_SPAWNED, .id = 1, .spawned = { .pid = UINT32_MAX } },
        { .type = INIT_REPORT_SPAWN_FAILED, .id = 1, .spawn_failed = { .error = 0, .step = INIT_STEP_EXEC } },
        { .type = INIT_REPORT_SPAWN_FAILED, .id = 1, .spawn_failed = { .error = -1, .step = INIT_STEP_EXEC } },
        { .type = INIT_REPORT_SPAWN_FAILED, .id = 1, .spawn_failed = { .error = 4096, .step = INIT_STEP_EXEC } },
        { .type = INIT_REPORT_SPAWN_FAILED, .id = 1, .spawn_failed = { .error = 1, .step = 0 } },
        { .type = INIT_REPORT_SPAWN_FAILED, .id = 1, .spawn_failed = { .error = 1, .step = INIT_STEP_LAST + 1 } },
        { .type = INIT_REPORT_EXITED, .id = 1, .exited = { .status = 0x7f } },    /* stopped, not ended */
        { .type = INIT_REPORT_EXITED, .id = 1, .exited = { .status = 0xffff } },  /* continued */
        { .type = INIT_REPORT_EXITED, .id = 1, .exited = { .status = 0x10000 } }, /* an event of ptrace */
        { .type = INIT_REPORT_EXITED, .id = 1, .exited = { .status = -1 } },
        { .type = INIT_REPORT_PTY, .id = 0 },
        { .type = INIT_REPORT_GONE, .id = 0 },
        { .type = 7, .id = 1 },
    };
    char bytes[INIT_PROTO_SMALL_MAX];
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(bad); i++)
        assert_int_equal(init_report_encode(&bad[i], bytes, sizeof(bytes), &frame), -EINVAL);
}

/* The same values as bytes, since our own encoder does not make them. */
static void values_out_of_range_are_refused_as_bytes(void **state)
{
    static const struct {
        uint16_t type;
        uint64_t id;
        size_t len;
        const char *bytes;
    } bad[] = {
        { INIT_REPORT_HELLO, 0, 12, "\1\0\0\0\0\0\0\0\0\0\0\0" },
        { INIT_REPORT_HELLO, 0, 12, "\1\0\0\0\1\0\0\0\4\0\0\0" },
        { INIT_REPORT_HELLO, 7, 12, "\1\0\0\0\1\0\0\0\0\0\0\0" },
        { INIT_REPORT_SPAWNED, 1, 4, "\0\0\0\0" },
        { INIT_REPORT_SPAWNED, 1, 4, "\0\0\0\x80" },
        { INIT_REPORT_SPAWNED, 0, 4, "\1\0\0\0" },
        { INIT_REPORT_SPAWN_FAILED, 1, 5, "\0\0\0\0\1" },
        { INIT_REPORT_SPAWN_FAILED, 1, 5, "\xff\xff\xff\xff\1" },
        { INIT_REPORT_SPAWN_FAILED, 1, 5, "\1\0\0\0\0" },
        { INIT_REPORT_SPAWN_FAILED, 1, 5, "\1\0\0\0\x0b" },
        { INIT_REPORT_EXITED, 1, 28, "\x7f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" },
        { INIT_REPORT_GONE, 0, 0, "" },
        { INIT_REQUEST_KILL, 1, 10, "\0\1\0\0\0\0\0\0\0\0" },
        { INIT_REQUEST_KILL, 1, 10, "\x41\1\0\0\0\0\0\0\0\0" },
        { INIT_REQUEST_KILL, 1, 10, "\x09\3\0\0\0\0\0\0\0\0" },
        { INIT_REQUEST_KILL, 0, 10, "\x09\1\0\0\0\0\0\0\0\0" },
        { INIT_REQUEST_SHUTDOWN, 1, 0, "" },
    };

    (void) state;
    for (size_t i = 0; i < count_of(bad); i++) {
        struct frame frame = { .type = bad[i].type, .id = bad[i].id, .len = bad[i].len, .payload = bad[i].bytes };

        refuse_report(&frame);
        refuse_request(&frame);
    }
}

static void bad_requests_are_not_encoded(void **state)
{
    static const struct init_request bad[] = {
        { .type = INIT_REQUEST_KILL, .id = 0, .kill = { .signal = 9, .scope = INIT_KILL_TREE } },
        { .type = INIT_REQUEST_KILL, .id = 1, .kill = { .signal = 0, .scope = INIT_KILL_TREE } },
        { .type = INIT_REQUEST_KILL, .id = 1, .kill = { .signal = 65, .scope = INIT_KILL_TREE } },
        { .type = INIT_REQUEST_KILL, .id = 1, .kill = { .signal = 9, .scope = 3 } },
        { .type = INIT_REQUEST_SHUTDOWN, .id = 1 },
        { .type = INIT_REQUEST_SPAWN, .id = 1 },
        { .type = 19, .id = 1 },
    };
    char bytes[INIT_PROTO_SMALL_MAX];
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(bad); i++)
        assert_int_equal(init_request_encode(&bad[i], bytes, sizeof(bytes), &frame), -EINVAL);
    assert_int_equal(init_request_encode(&requests[0], bytes, 1, &frame), -EMSGSIZE);
    assert_int_equal(init_report_encode(&reports[0], bytes, 11, &frame), -EMSGSIZE);
}

static void every_step_has_a_text(void **state)
{
    (void) state;
    for (int step = INIT_STEP_REQUEST; step <= INIT_STEP_LAST; step++)
        assert_non_null(init_step_text((enum init_step) step));
    assert_string_equal(init_step_text(INIT_STEP_CWD), "changing the directory");
    assert_string_equal(init_step_text((enum init_step) 0), "starting it");
    assert_string_equal(init_step_text((enum init_step) 200), "starting it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_report_survives_the_way),
        cmocka_unit_test(fields_arrive_in_their_places),
        cmocka_unit_test(every_request_survives_the_way),
        cmocka_unit_test(bytes_missing_or_left_over_are_refused),
        cmocka_unit_test(descriptors_belong_to_a_pty_only),
        cmocka_unit_test(unknown_types_are_refused_in_both_directions),
        cmocka_unit_test(values_out_of_range_are_neither_sent_nor_taken),
        cmocka_unit_test(values_out_of_range_are_refused_as_bytes),
        cmocka_unit_test(bad_requests_are_not_encoded),
        cmocka_unit_test(every_step_has_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
