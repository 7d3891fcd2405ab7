#include "fixture.h"

#include <signal.h>

#include "wire/ctl_proto.h"

static const struct ctl_request requests[] = {
    { .type = CTL_REQUEST_SESSION_CLOSE, .tag = 1, .session_close = { "build" } },
    { .type = CTL_REQUEST_ATTACH, .tag = UINT64_MAX, .attach = { "x" } },
    { .type = CTL_REQUEST_KILL, .tag = 2, .kill = { .signal = SIGKILL, .scope = CTL_KILL_TREE } },
    { .type = CTL_REQUEST_KILL, .tag = 3, .kill = { .signal = 64, .scope = CTL_KILL_MAIN } },
    { .type = CTL_REQUEST_RESIZE, .tag = 4, .resize = { .rows = 65535, .cols = 80 } },
    { .type = CTL_REQUEST_SET_RULES, .tag = 5 },
    { .type = CTL_REQUEST_STATUS, .tag = 6 },
    { .type = CTL_REQUEST_SYNC, .tag = 7 },
    { .type = CTL_REQUEST_WATCH, .tag = 8, .watch = { .after = UINT64_MAX } },
    { .type = CTL_REQUEST_STOP, .tag = 9, .stop = { .grace_ms = 5000 } },
};

static const struct ctl_reply replies[] = {
    { .type = CTL_REPLY_HELLO, .hello = { .version = CTL_PROTO_VERSION, .state = CTL_STATE_BOOTING, .name = "shop" } },
    { .type = CTL_REPLY_HELLO, .hello = { .version = UINT32_MAX, .state = CTL_STATE_FAILED } },
    { .type = CTL_REPLY_STATE, .state = { .state = CTL_STATE_RUNNING } },
    { .type = CTL_REPLY_STATE, .state = { .state = CTL_STATE_FAILED, .code = ERR_UNAUTHENTICATED, .text = "no bwrap" } },
    { .type = CTL_REPLY_OK, .tag = 1 },
    { .type = CTL_REPLY_OK, .tag = 1, .ok = { "session-1" } },
    { .type = CTL_REPLY_ERROR, .tag = 2, .error = { .code = ERR_CANCELLED, .text = "" } },
    { .type = CTL_REPLY_ERROR, .tag = 2, .error = { .code = ERR_NOT_FOUND, .text = "there is no session 'x'" } },
    { .type = CTL_REPLY_STARTED, .tag = UINT64_MAX, .started = { .name = "exec-1", .pid = INT32_MAX } },
    { .type = CTL_REPLY_OUTPUT, .tag = 3, .output = { .stream = CTL_STREAM_OUT, .lost = 7, .len = 4, .bytes = "a\0b\n" } },
    { .type = CTL_REPLY_OUTPUT, .tag = 3, .output = { .stream = CTL_STREAM_ERR, .lost = UINT64_MAX } },
    { .type = CTL_REPLY_FINISHED, .tag = 4, .finished = { .end = CTL_END_EXITED, .status = 255 } },
    { .type = CTL_REPLY_FINISHED,
      .tag = 4,
      .finished = { .end = CTL_END_SIGNALED,
                    .status = 64,
                    .flags = CTL_FINISHED_ALL,
                    .wall_us = 1,
                    .user_us = 2,
                    .system_us = 3,
                    .max_rss_kib = UINT64_MAX } },
    { .type = CTL_REPLY_FINISHED, .tag = 4, .finished = { .end = CTL_END_NOT_STARTED, .error = ENOENT, .text = "none" } },
    { .type = CTL_REPLY_FINISHED, .tag = 4, .finished = { .end = CTL_END_SESSION } },
    { .type = CTL_REPLY_STATUS,
      .tag = 5,
      .status = { .state = CTL_STATE_STOPPING,
                  .pid = 1,
                  .init_pid = 2,
                  .started_ns = -3,
                  .execs = 4,
                  .sessions = 5,
                  .clients = 6,
                  .used_bytes = 7,
                  .used_inodes = 8,
                  .fence_requests = 9,
                  .denials = 10,
                  .denials_dropped = 11,
                  .last_event = UINT64_MAX } },
    { .type = CTL_REPLY_EVENT,
      .tag = 6,
      .event = { .number = 1,
                 .wall_ns = INT64_MIN,
                 .kind = CTL_EVENT_DENIED,
                 .numbers = { EACCES, -1, INT64_MAX },
                 .exec = "exec-1",
                 .subject = "/secret",
                 .detail = "open none" } },
    { .type = CTL_REPLY_EVENT, .tag = 6, .event = { .number = 2, .kind = CTL_EVENT_SESSION_CLOSED } },
};

static char first[FRAME_PAYLOAD_MAX + 1], second[FRAME_PAYLOAD_MAX];

static void encode_request(const struct ctl_request *request, struct frame *ret)
{
    assert_int_equal(ctl_request_encode(request, first, CTL_PROTO_SMALL_MAX, ret), 0);
    if (request->type == CTL_REQUEST_SET_RULES)
        ret->fds[ret->fd_count++] = 0;
}

static void encode_reply(const struct ctl_reply *reply, struct frame *ret)
{
    assert_int_equal(ctl_reply_encode(reply, first, CTL_PROTO_SMALL_MAX, ret), 0);
}

/* Encoded again, what was decoded is the same bytes: every field survived. */
static void every_request_survives_the_way(void **state)
{
    (void) state;
    for (size_t i = 0; i < count_of(requests); i++) {
        struct ctl_request got;
        struct frame a, b;

        encode_request(&requests[i], &a);
        assert_int_equal(ctl_request_decode(&a, &got), 0);
        assert_int_equal(got.type, requests[i].type);
        assert_true(got.tag == requests[i].tag);
        assert_int_equal(ctl_request_encode(&got, second, sizeof(second), &b), 0);
        assert_true(a.len == b.len && a.id == b.id && a.type == b.type);
        assert_memory_equal(first, second, a.len);
    }
}

static void every_reply_survives_the_way(void **state)
{
    (void) state;
    for (size_t i = 0; i < count_of(replies); i++) {
        struct ctl_reply got;
        struct frame a, b;

        encode_reply(&replies[i], &a);
        assert_int_equal(ctl_reply_decode(&a, &got), 0);
        assert_int_equal(got.type, replies[i].type);
        assert_true(got.tag == replies[i].tag);
        assert_int_equal(ctl_reply_encode(&got, second, sizeof(second), &b), 0);
        assert_true(a.len == b.len && a.id == b.id && a.type == b.type);
        assert_memory_equal(first, second, a.len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_survives_the_way),
        cmocka_unit_test(every_reply_survives_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
