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
    { .type = CTL_REQUEST_SYNC, .tag = 7, .sync = { "exec-12" } },
    { .type = CTL_REQUEST_BASE_CHANGED, .tag = 7 },
    { .type = CTL_REQUEST_BASE_CHANGED, .tag = 7, .base_changed = { .count = 2, .len = 9, .bytes = "/a\0/b/\xff\n" } },
    { .type = CTL_REQUEST_WATCH, .tag = 8, .watch = { .after = UINT64_MAX } },
    { .type = CTL_REQUEST_STOP, .tag = 9, .stop = { .grace_ms = 5000 } },
    { .type = CTL_REQUEST_QUIESCE, .tag = 10, .quiesce = { .wait_ms = 0, .limit_ms = CTL_QUIESCE_MS_MAX } },
    { .type = CTL_REQUEST_REVERT, .tag = 11, .revert = { .paths = { .count = 2, .len = 6, .bytes = "/a\0/b" } } },
    { .type = CTL_REQUEST_REVERT, .tag = 11, .revert = { .paths = { .count = 1, .len = 3, .bytes = "/a" }, .replaces = 1 } },
    { .type = CTL_REQUEST_RELEASE, .tag = 12 },
    { .type = CTL_REQUEST_FILE, .tag = 13, .file = { .op = CTL_FILE_STAT, .path = ".", .after = "" } },
    { .type = CTL_REQUEST_FILE, .tag = 13, .file = { .op = CTL_FILE_LIST, .path = "a/\xff", .after = "m" } },
    { .type = CTL_REQUEST_FILE, .tag = 13, .file = { .op = CTL_FILE_READ, .offset = 9, .size = 8, .path = "a", .after = "" } },
    { .type = CTL_REQUEST_FILE,
      .tag = 13,
      .file = { .op = CTL_FILE_WRITE, .flags = 5, .mode = 0640, .size = CTL_FILE_SIZE_MAX, .path = "a", .after = "" } },
    { .type = CTL_REQUEST_FILE,
      .tag = 13,
      .file = { .op = CTL_FILE_MKDIR, .flags = 1, .mode = 0777, .path = "a", .after = "" } },
    { .type = CTL_REQUEST_FILE, .tag = 13, .file = { .op = CTL_FILE_REMOVE, .flags = 2, .path = "a", .after = "" } },
    { .type = CTL_REQUEST_FILE, .tag = 13, .file = { .op = CTL_FILE_RENAME, .flags = 5, .path = "a", .after = "b/c" } },
    { .type = CTL_REQUEST_END, .tag = 10, .end = { .name = "pr_0123456789abcdef", .grace_ms = UINT32_MAX } },
    { .type = CTL_REQUEST_INPUT, .tag = 11, .input = { .len = 3, .bytes = "a\0b" } },
};

/* Two entries, as ctl_listing_add() writes them. */
#define ENTRY(kind, name) kind "\xa4\1\0\0\7\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0" name "\0"
static const uint8_t entries[] = ENTRY("\1", "a") ENTRY("\2", "b.");

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
    { .type = CTL_REPLY_EVENT, .tag = 6, .event = { .number = 2, .kind = CTL_EVENT_SYNC_CONFLICT } },
    { .type = CTL_REPLY_SYNCED, .tag = 7 },
    { .type = CTL_REPLY_SYNCED,
      .tag = 7,
      .synced = { .version = UINT64_MAX,
                  .change_count = 3,
                  .conflict_count = 2,
                  .left_count = 1,
                  .changes = { .count = 2, .len = 6, .bytes = "/a\0/b" },
                  .conflicts = { .count = 2, .len = 8, .bytes = "-/a\0+/b" } } },
    { .type = CTL_REPLY_FILE,
      .tag = 8,
      .file = { .kind = CTL_FILE_SYMLINK, .mode = 0777, .size = UINT64_MAX, .mtime_ns = INT64_MIN, .text = "../target" } },
    { .type = CTL_REPLY_FILE, .tag = 8, .file = { .kind = CTL_FILE_REGULAR, .mode = 0644, .text = "" } },
    { .type = CTL_REPLY_LISTING, .tag = 9 },
    { .type = CTL_REPLY_LISTING, .tag = 9, .listing = { 1, 2, sizeof(entries) - 1, entries } },
};

static char first[FRAME_PAYLOAD_MAX + 1], second[FRAME_PAYLOAD_MAX];

static void encode_request(const struct ctl_request *request, struct frame *ret)
{
    assert_int_equal(ctl_request_encode(request, first, CTL_PROTO_SMALL_MAX, ret), 0);
    if (request->type == CTL_REQUEST_SET_RULES || (request->type == CTL_REQUEST_REVERT && request->revert.replaces) ||
        (request->type == CTL_REQUEST_FILE && request->file.op == CTL_FILE_WRITE))
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

/* A few fields by name: encoding and decoding might agree on a wrong order. */
static void fields_arrive_in_their_places(void **state)
{
    struct ctl_reply got;
    struct frame frame;

    (void) state;
    encode_reply(&replies[3], &frame);
    assert_int_equal(ctl_reply_decode(&frame, &got), 0);
    assert_true(got.state.state == CTL_STATE_FAILED && got.state.code == ERR_UNAUTHENTICATED);
    assert_string_equal(got.state.text, "no bwrap");
    encode_reply(&replies[9], &frame);
    assert_int_equal(ctl_reply_decode(&frame, &got), 0);
    assert_true(got.output.stream == CTL_STREAM_OUT && got.output.lost == 7 && got.output.len == 4);
    assert_memory_equal(got.output.bytes, "a\0b\n", 4);
    encode_reply(&replies[12], &frame);
    assert_int_equal(ctl_reply_decode(&frame, &got), 0);
    assert_true(got.finished.status == 64 && got.finished.flags == CTL_FINISHED_ALL && got.finished.error == 0);
    assert_true(got.finished.wall_us == 1 && got.finished.user_us == 2 && got.finished.system_us == 3);
    encode_reply(&replies[15], &frame);
    assert_int_equal(ctl_reply_decode(&frame, &got), 0);
    assert_memory_equal(&got.status, &replies[15].status, sizeof(got.status));
    encode_reply(&replies[16], &frame);
    assert_int_equal(ctl_reply_decode(&frame, &got), 0);
    assert_true(got.event.wall_ns == INT64_MIN && got.event.numbers[0] == EACCES && got.event.numbers[2] == INT64_MAX);
    assert_string_equal(got.event.exec, "exec-1");
    assert_string_equal(got.event.subject, "/secret");
    assert_string_equal(got.event.detail, "open none");
    encode_reply(&replies[17], &frame);
    assert_int_equal(ctl_reply_decode(&frame, &got), 0);
    assert_string_equal(got.event.detail, "");
}

static void refuse_request(const struct frame *frame)
{
    struct ctl_request got = { .tag = 99 };

    assert_int_equal(ctl_request_decode(frame, &got), -EPROTO);
    assert_true(got.tag == 99);
}

static void refuse_reply(const struct frame *frame)
{
    struct ctl_reply got = { .tag = 99 };

    assert_int_equal(ctl_reply_decode(frame, &got), -EPROTO);
    assert_true(got.tag == 99);
}

/* Every prefix of a message, and every message with a byte more. */
static void bytes_missing_or_left_over_are_refused(void **state)
{
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(requests); i++) {
        encode_request(&requests[i], &frame);
        size_t whole = frame.len;
        for (frame.len = 0; frame.len <= whole + 1; frame.len++)
            if (frame.len != whole)
                refuse_request(&frame);
    }
    for (size_t i = 0; i < count_of(replies); i++) {
        encode_reply(&replies[i], &frame);
        size_t whole = frame.len;
        for (frame.len = 0; frame.len <= whole + 1; frame.len++)
            if (frame.len != whole)
                refuse_reply(&frame);
    }
}

/* Encoding fails cleanly for every buffer that is too small, and writes nothing behind its end. */
static void a_buffer_too_small_is_told(void **state)
{
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(replies); i++) {
        encode_reply(&replies[i], &frame);
        for (size_t cap = 0; cap < frame.len; cap++) {
            struct frame unused;

            second[cap] = 0x55;
            assert_int_equal(ctl_reply_encode(&replies[i], second, cap, &unused), -EMSGSIZE);
            assert_int_equal(second[cap], 0x55);
        }
    }
    assert_int_equal(ctl_request_encode(&requests[0], second, 5, &frame), -EMSGSIZE);
}

static void descriptors_belong_to_rules_and_terminals_only(void **state)
{
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(requests); i++) {
        encode_request(&requests[i], &frame);
        frame.fd_count = frame.fd_count == 1 ? 0 : 1;
        refuse_request(&frame);
        frame.fd_count = 2;
        refuse_request(&frame);
    }
    for (size_t i = 0; i < count_of(replies); i++) {
        struct ctl_reply got;

        encode_reply(&replies[i], &frame);
        frame.fd_count = 1;
        if (frame.type == CTL_REPLY_STARTED || frame.type == CTL_REPLY_FILE)
            assert_int_equal(ctl_reply_decode(&frame, &got), 0);
        else
            refuse_reply(&frame);
        frame.fd_count = 2;
        refuse_reply(&frame);
    }
}

static void unknown_types_are_refused_in_both_directions(void **state)
{
    (void) state;
    memset(first, 1, 64);
    for (unsigned type = 0; type <= UINT16_MAX; type++) {
        struct frame frame = { .type = (uint16_t) type, .id = 1, .payload = first };

        for (frame.len = 0; frame.len < 9; frame.len++) {
            if (type < CTL_REQUEST_EXEC || type > CTL_REQUEST_FILE)
                refuse_request(&frame);
            if (type < CTL_REPLY_HELLO || type > CTL_REPLY_LISTING)
                refuse_reply(&frame);
        }
    }
}

static void only_hello_and_state_have_no_tag(void **state)
{
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(requests); i++) {
        struct ctl_request bad = requests[i];

        bad.tag = 0;
        assert_int_equal(ctl_request_encode(&bad, second, sizeof(second), &frame), -EINVAL);
        encode_request(&requests[i], &frame);
        frame.id = 0;
        refuse_request(&frame);
    }
    for (size_t i = 0; i < count_of(replies); i++) {
        struct ctl_reply bad = replies[i];

        bad.tag = bad.tag == 0;
        assert_int_equal(ctl_reply_encode(&bad, second, sizeof(second), &frame), -EINVAL);
        encode_reply(&replies[i], &frame);
        frame.id = frame.id == 0;
        refuse_reply(&frame);
    }
}

#define FULL(text) "0123456789012345678901234567890123456789012345678901234567890" text

static void bad_requests_are_not_encoded(void **state)
{
    static const struct ctl_request bad[] = {
        { .type = CTL_REQUEST_SESSION_CLOSE, .tag = 1 },
        { .type = CTL_REQUEST_SESSION_CLOSE, .tag = 1, .session_close = { FULL("123") } }, /* no NUL */
        { .type = CTL_REQUEST_ATTACH, .tag = 1 },
        { .type = CTL_REQUEST_ATTACH, .tag = 1, .attach = { FULL("123") } },
        { .type = CTL_REQUEST_KILL, .tag = 1, .kill = { .signal = 0 } },
        { .type = CTL_REQUEST_KILL, .tag = 1, .kill = { .signal = -1 } },
        { .type = CTL_REQUEST_KILL, .tag = 1, .kill = { .signal = 65 } },
        { .type = CTL_REQUEST_KILL, .tag = 1, .kill = { .signal = 9, .scope = 2 } },
        { .type = CTL_REQUEST_EXEC, .tag = 1 },
        { .type = CTL_REQUEST_SESSION_OPEN, .tag = 1 },
        { .type = CTL_REQUEST_SESSION_EXEC, .tag = 1 },
        { .type = 31, .tag = 1 },
        { .type = 45, .tag = 1 },
        { .type = CTL_REQUEST_SYNC, .tag = 1, .sync = { FULL("123") } },
        { .type = CTL_REQUEST_BASE_CHANGED, .tag = 1, .base_changed = { .count = 1 } },
        { .type = CTL_REQUEST_QUIESCE, .tag = 1, .quiesce = { .wait_ms = 1 } },
        { .type = CTL_REQUEST_QUIESCE, .tag = 1, .quiesce = { .limit_ms = CTL_QUIESCE_MS_MAX + 1 } },
        { .type = CTL_REQUEST_QUIESCE, .tag = 1, .quiesce = { .wait_ms = CTL_QUIESCE_MS_MAX + 1, .limit_ms = 1 } },
        { .type = CTL_REQUEST_REVERT, .tag = 1 },
        { .type = CTL_REQUEST_REVERT, .tag = 1, .revert = { .paths = { 2, 6, "/a\0/b" }, .replaces = 1 } },
        { .type = CTL_REQUEST_REVERT, .tag = 1, .revert = { .paths = { 1, 3, "/a" }, .replaces = 2 } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = 0, .path = "a", .after = "" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = 8, .path = "a", .after = "" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = CTL_FILE_STAT, .path = "", .after = "" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = CTL_FILE_STAT, .path = "a", .after = "b" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = CTL_FILE_STAT, .mode = 1, .path = "a", .after = "" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = CTL_FILE_STAT, .size = 1, .path = "a", .after = "" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = CTL_FILE_WRITE, .offset = 1, .path = "a", .after = "" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = CTL_FILE_WRITE, .mode = 01777, .path = "a", .after = "" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = CTL_FILE_WRITE, .flags = 2, .path = "a", .after = "" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = CTL_FILE_REMOVE, .flags = 1, .path = "a", .after = "" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = CTL_FILE_RENAME, .flags = 2, .path = "a", .after = "b" } },
        { .type = CTL_REQUEST_FILE, .tag = 1, .file = { .op = CTL_FILE_RENAME, .path = "a", .after = "" } },
        { .type = CTL_REQUEST_BASE_CHANGED, .tag = 1, .base_changed = { .count = 1, .len = 2, .bytes = "/a" } }, /* no NUL */
        { .type = CTL_REQUEST_BASE_CHANGED, .tag = 1, .base_changed = { .count = 1, .len = 6, .bytes = "/a\0/b" } },
        { .type = CTL_REQUEST_BASE_CHANGED,
          .tag = 1,
          .base_changed = { .count = 2, .len = 4, .bytes = "/a\0" } }, /* an empty one */
        { .type = CTL_REQUEST_BASE_CHANGED,
          .tag = 1,
          .base_changed = { .count = 1, .len = CTL_PATHS_BYTES_MAX + 1, .bytes = first } },
    };
    const struct ctl_request longest = { .type = CTL_REQUEST_ATTACH, .tag = 1, .attach = { FULL("12") } };
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(bad); i++)
        assert_int_equal(ctl_request_encode(&bad[i], second, sizeof(second), &frame), -EINVAL);
    assert_int_equal(ctl_request_encode(&longest, second, sizeof(second), &frame), 0);
}

static void bad_replies_are_not_encoded(void **state)
{
    static const struct ctl_reply bad[] = {
        { .type = CTL_REPLY_HELLO, .hello = { .version = 1, .state = 0 } },
        { .type = CTL_REPLY_HELLO, .hello = { .version = 1, .state = CTL_STATE_FAILED + 1 } },
        { .type = CTL_REPLY_HELLO, .hello = { .version = 1, .state = CTL_STATE_RUNNING, .name = FULL("123") } },
        { .type = CTL_REPLY_STATE, .state = { .state = 0 } },
        { .type = CTL_REPLY_STATE, .state = { .state = CTL_STATE_RUNNING, .code = ERR_UNAUTHENTICATED + 1 } },
        { .type = CTL_REPLY_STATE, .state = { .state = CTL_STATE_FAILED, .code = ERR_OK } },
        { .type = CTL_REPLY_OK, .tag = 1, .ok = { FULL("123") } },
        { .type = CTL_REPLY_ERROR, .tag = 1, .error = { .code = ERR_OK } },
        { .type = CTL_REPLY_ERROR, .tag = 1, .error = { .code = ERR_UNAUTHENTICATED + 1 } },
        { .type = CTL_REPLY_STARTED, .tag = 1, .started = { .name = FULL("123") } },
        { .type = CTL_REPLY_STARTED, .tag = 1, .started = { .pid = 0x80000000u } },
        { .type = CTL_REPLY_OUTPUT, .tag = 1, .output = { .stream = 0 } },
        { .type = CTL_REPLY_OUTPUT, .tag = 1, .output = { .stream = 3 } },
        { .type = CTL_REPLY_OUTPUT, .tag = 1, .output = { .stream = 1, .len = CTL_OUTPUT_MAX + 1, .bytes = first } },
        { .type = CTL_REPLY_OUTPUT, .tag = 1, .output = { .stream = 1, .len = SIZE_MAX, .bytes = first } },
        { .type = CTL_REPLY_FINISHED, .tag = 1, .finished = { .end = 0 } },
        { .type = CTL_REPLY_FINISHED, .tag = 1, .finished = { .end = CTL_END_SESSION + 1 } },
        { .type = CTL_REPLY_FINISHED, .tag = 1, .finished = { .end = CTL_END_EXITED, .status = -1 } },
        { .type = CTL_REPLY_FINISHED, .tag = 1, .finished = { .end = CTL_END_EXITED, .status = 256 } },
        { .type = CTL_REPLY_FINISHED, .tag = 1, .finished = { .end = CTL_END_SIGNALED, .status = 0 } },
        { .type = CTL_REPLY_FINISHED, .tag = 1, .finished = { .end = CTL_END_SIGNALED, .status = 65 } },
        { .type = CTL_REPLY_FINISHED, .tag = 1, .finished = { .end = CTL_END_LOST, .error = -1 } },
        { .type = CTL_REPLY_FINISHED, .tag = 1, .finished = { .end = CTL_END_LOST, .error = 4096 } },
        { .type = CTL_REPLY_FINISHED, .tag = 1, .finished = { .end = CTL_END_LOST, .flags = CTL_FINISHED_ALL + 1 } },
        { .type = CTL_REPLY_STATUS, .tag = 1, .status = { .pid = 1 } },
        { .type = CTL_REPLY_STATUS, .tag = 1, .status = { .state = CTL_STATE_RUNNING } },
        { .type = CTL_REPLY_STATUS, .tag = 1, .status = { .state = CTL_STATE_RUNNING, .pid = 0x80000000u } },
        { .type = CTL_REPLY_STATUS, .tag = 1, .status = { .state = CTL_STATE_RUNNING, .pid = 1, .init_pid = 0x80000000u } },
        { .type = CTL_REPLY_EVENT, .tag = 1, .event = { .number = 0, .kind = CTL_EVENT_LIMIT } },
        { .type = CTL_REPLY_EVENT, .tag = 1, .event = { .number = 1, .kind = 0 } },
        { .type = CTL_REPLY_EVENT, .tag = 1, .event = { .number = 1, .kind = CTL_EVENT_LAST + 1 } },
        { .type = 63, .tag = 1 },
        { .type = 74, .tag = 1 },
        { .type = CTL_REPLY_SYNCED, .tag = 1, .synced = { .changes = { .count = 1, .len = 3, .bytes = "/a" } } },
        { .type = CTL_REPLY_SYNCED,
          .tag = 1,
          .synced = { .conflict_count = 1, .conflicts = { .count = 1, .len = 3, .bytes = "/a" } } },
        { .type = CTL_REPLY_SYNCED, .tag = 1, .synced = { .change_count = 1, .changes = { .count = 1, .len = 0 } } },
    };
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(bad); i++)
        assert_int_equal(ctl_reply_encode(&bad[i], second, sizeof(second), &frame), -EINVAL);
}

/* Texts that fill their array without a NUL: too long to be written down here. */
static void a_text_without_an_end_is_not_encoded(void **state)
{
    struct ctl_reply bad = { .type = CTL_REPLY_STATE, .state = { .state = CTL_STATE_RUNNING } };
    struct frame frame;

    (void) state;
    memset(bad.state.text, 'x', CTL_TEXT_MAX);
    assert_int_equal(ctl_reply_encode(&bad, second, sizeof(second), &frame), -EINVAL);
    bad = (struct ctl_reply){ .type = CTL_REPLY_ERROR, .tag = 1, .error = { .code = ERR_ABORTED } };
    memset(bad.error.text, 'x', CTL_TEXT_MAX);
    assert_int_equal(ctl_reply_encode(&bad, second, sizeof(second), &frame), -EINVAL);
    bad.error.text[CTL_TEXT_MAX - 1] = '\0';
    assert_int_equal(ctl_reply_encode(&bad, second, sizeof(second), &frame), 0);
    bad = (struct ctl_reply){ .type = CTL_REPLY_FINISHED, .tag = 1, .finished = { .end = CTL_END_LOST } };
    memset(bad.finished.text, 'x', CTL_TEXT_MAX);
    assert_int_equal(ctl_reply_encode(&bad, second, sizeof(second), &frame), -EINVAL);
}

/* Values as bytes, since our own encoder does not make them. */
static void values_out_of_range_are_refused_as_bytes(void **state)
{
    static const struct {
        uint16_t type;
        uint64_t tag;
        size_t len;
        const char *bytes;
    } bad[] = {
        { CTL_REQUEST_SESSION_CLOSE, 1, 1, "\0" },
        { CTL_REQUEST_SESSION_CLOSE, 1, 3, "a\0b" },
        { CTL_REQUEST_SESSION_CLOSE, 1, 65, FULL("123") }, /* ended, but too long */
        { CTL_REQUEST_ATTACH, 1, 64, FULL("123") },        /* not ended */
        { CTL_REQUEST_KILL, 1, 2, "\0\0" },
        { CTL_REQUEST_KILL, 1, 2, "\x41\0" },
        { CTL_REQUEST_KILL, 1, 2, "\x09\2" },
        { CTL_REPLY_HELLO, 0, 6, "\1\0\0\0\0\0" },
        { CTL_REPLY_HELLO, 0, 6, "\1\0\0\0\6\0" },
        { CTL_REPLY_STATE, 0, 3, "\0\0\0" },
        { CTL_REPLY_STATE, 0, 3, "\5\0\0" },
        { CTL_REPLY_STATE, 0, 3, "\2\x11\0" },
        { CTL_REPLY_OK, 1, 65, FULL("123") },
        { CTL_REPLY_ERROR, 1, 2, "\0\0" },
        { CTL_REPLY_ERROR, 1, 2, "\x11\0" },
        { CTL_REPLY_STARTED, 1, 5, "\0\0\0\x80\0" },
        { CTL_REPLY_OUTPUT, 1, 13, "\0\0\0\0\0\0\0\0\0\0\0\0\0" },
        { CTL_REPLY_OUTPUT, 1, 13, "\3\0\0\0\0\0\0\0\0\0\0\0\0" },
        { CTL_REPLY_OUTPUT, 1, 13, "\1\0\0\0\0\0\0\0\0\xff\xff\xff\xff" },
    };

    (void) state;
    for (size_t i = 0; i < count_of(bad); i++) {
        struct frame frame = { .type = bad[i].type, .id = bad[i].tag, .len = bad[i].len, .payload = bad[i].bytes };

        refuse_request(&frame);
        refuse_reply(&frame);
    }
}

/* Whatever byte of a message is changed, the decoder either refuses it or gives something that encodes to the same bytes. */
static void no_byte_is_ignored(void **state)
{
    (void) state;
    for (size_t i = 0; i < count_of(replies); i++) {
        struct frame a, b;

        encode_reply(&replies[i], &a);
        for (size_t at = 0; at < a.len; at++) {
            char kept = first[at];

            for (unsigned value = 0; value < 256; value++) {
                struct ctl_reply got;

                first[at] = (char) value;
                if (ctl_reply_decode(&a, &got) < 0)
                    continue;
                assert_int_equal(ctl_reply_encode(&got, second, sizeof(second), &b), 0);
                assert_int_equal(a.len, b.len);
                assert_memory_equal(first, second, a.len);
            }
            first[at] = kept;
        }
    }
}

static void output_fills_a_frame_and_nothing_else_does(void **state)
{
    static char bytes[CTL_OUTPUT_MAX];
    struct ctl_reply output = { .type = CTL_REPLY_OUTPUT,
                                .tag = 1,
                                .output = { .stream = CTL_STREAM_ERR, .len = sizeof(bytes), .bytes = bytes } };
    struct ctl_reply event = { .type = CTL_REPLY_EVENT, .tag = 1, .event = { .number = 1, .kind = CTL_EVENT_DENIED } }, got;
    const size_t room = CTL_PROTO_SMALL_MAX - 41 - 3; /* the numbers, three NULs */
    struct frame frame;

    (void) state;
    memset(bytes, 'x', sizeof(bytes));
    assert_int_equal(ctl_reply_encode(&output, first, FRAME_PAYLOAD_MAX, &frame), 0);
    assert_int_equal(ctl_reply_decode(&frame, &got), 0);
    assert_int_equal(got.output.len, sizeof(bytes));
    assert_memory_equal(got.output.bytes, bytes, sizeof(bytes));

    event.event.subject = bytes;
    bytes[room] = '\0';
    assert_int_equal(ctl_reply_encode(&event, first, FRAME_PAYLOAD_MAX, &frame), 0);
    assert_int_equal(frame.len, CTL_PROTO_SMALL_MAX);
    assert_int_equal(ctl_reply_decode(&frame, &got), 0);
    bytes[room] = 'x';
    bytes[room + 1] = '\0';
    assert_int_equal(ctl_reply_encode(&event, first, FRAME_PAYLOAD_MAX, &frame), -EMSGSIZE);
}

static void every_state_has_its_name(void **state)
{
    static const char *const states[] = { "booting", "running", "stopping", "stopped", "failed" };

    (void) state;
    for (size_t i = 0; i < count_of(states); i++)
        assert_string_equal(ctl_state_name((enum ctl_state)(i + 1)), states[i]);
    assert_string_equal(ctl_state_name((enum ctl_state) 0), "unknown");
    assert_string_equal(ctl_state_name((enum ctl_state) 6), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_survives_the_way),
        cmocka_unit_test(every_reply_survives_the_way),
        cmocka_unit_test(fields_arrive_in_their_places),
        cmocka_unit_test(bytes_missing_or_left_over_are_refused),
        cmocka_unit_test(a_buffer_too_small_is_told),
        cmocka_unit_test(descriptors_belong_to_rules_and_terminals_only),
        cmocka_unit_test(unknown_types_are_refused_in_both_directions),
        cmocka_unit_test(only_hello_and_state_have_no_tag),
        cmocka_unit_test(bad_requests_are_not_encoded),
        cmocka_unit_test(bad_replies_are_not_encoded),
        cmocka_unit_test(a_text_without_an_end_is_not_encoded),
        cmocka_unit_test(values_out_of_range_are_refused_as_bytes),
        cmocka_unit_test(no_byte_is_ignored),
        cmocka_unit_test(output_fills_a_frame_and_nothing_else_does),
        cmocka_unit_test(every_state_has_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
