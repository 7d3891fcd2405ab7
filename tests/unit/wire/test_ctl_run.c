#include "fixture.h"

#include <sys/mman.h>

#include "wire/ctl_proto.h"
#include "wire/writer.h"

static const char *const argv_small[] = { "/bin/sh", "-c", "", "a b", NULL };
static const char *const envp_small[] = { "A=1", "PATH=/bin", NULL };
static const char *const one[] = { "make -j2", NULL };

static const struct ctl_command small = {
    .name = "build", .session = "", .cwd = "/work", .argv = argv_small, .envp = envp_small
};
static const struct ctl_command in_session = { .session = "s1", .argv = one };
static const struct ctl_run plain = { 0 };

static char buf[FRAME_PAYLOAD_MAX + 1];
static const char *room[CTL_STRINGS_COUNT_MAX + 2];

static int encode(enum ctl_request_type type, const struct ctl_run *run, const struct ctl_command *command, int stdin_fd,
                  struct frame *ret)
{
    int fd = -1, r = ctl_run_encode(type, 7, run, command, stdin_fd, buf, ret, &fd);

    assert_int_equal(fd, -1);
    return r;
}

static void assert_same_strings(const char *const *got, const char *const *expected)
{
    for (; *expected; got++, expected++)
        assert_string_equal(*got, *expected);
    assert_null(*got);
}

static void limits_and_a_note_survive_the_way(void **state)
{
    const struct ctl_run run = { .flags = CTL_RUN_LOGGED | CTL_RUN_LIMITS,
                                 .limits = { .memory_bytes = 1, .cpu_sec = 2, .processes = 3, .files = UINT64_MAX } };
    struct ctl_command command = small;
    char note[CTL_NOTE_MAX + 1];
    struct ctl_request got;
    struct frame frame;

    (void) state;
    memset(note, 'x', sizeof(note));
    note[CTL_NOTE_MAX - 1] = '\0';
    command.session = note;
    assert_int_equal(encode(CTL_REQUEST_EXEC, &run, &command, -1, &frame), 0);
    assert_int_equal(ctl_request_decode(&frame, &got), 0);
    assert_true(got.run.limits.memory_bytes == 1 && got.run.limits.cpu_sec == 2 && got.run.limits.processes == 3 &&
                got.run.limits.files == UINT64_MAX);
    ctl_run_command(&got.run, room, &command);
    assert_string_equal(command.session, note);
    assert_same_strings(command.argv, argv_small);
    /* Neither is for a session's command, and a note is no longer than that. */
    assert_int_equal(encode(CTL_REQUEST_SESSION_EXEC, &run, &in_session, -1, &frame), -EINVAL);
    note[CTL_NOTE_MAX - 1] = 'x';
    note[CTL_NOTE_MAX] = '\0';
    command = small;
    command.session = note;
    assert_int_equal(encode(CTL_REQUEST_EXEC, &run, &command, -1, &frame), -EINVAL);
    command.session = "a note";
    assert_int_equal(encode(CTL_REQUEST_EXEC, &plain, &command, -1, &frame), -EINVAL);
}

static void every_field_survives_the_way(void **state)
{
    const struct ctl_run run = { .flags = CTL_RUN_TTY | CTL_RUN_DETACHED | CTL_RUN_STDIN,
                                 .timeout_ms = UINT32_MAX,
                                 .output_limit = UINT64_MAX - 1,
                                 .rows = 65535,
                                 .cols = 80 };
    struct ctl_request got;
    struct ctl_command command;
    struct frame frame;

    (void) state;
    assert_int_equal(encode(CTL_REQUEST_EXEC, &run, &small, 5, &frame), 0);
    assert_true(frame.fd_count == 1 && frame.fds[0] == 5);
    assert_int_equal(ctl_request_decode(&frame, &got), 0);
    assert_true(got.type == CTL_REQUEST_EXEC && got.tag == 7 && got.run.flags == run.flags);
    assert_true(got.run.timeout_ms == UINT32_MAX && got.run.output_limit == UINT64_MAX - 1);
    assert_true(got.run.rows == 65535 && got.run.cols == 80 && got.run.argc == 4 && got.run.envc == 2);
    assert_int_equal(ctl_run_map_strings(&got.run, &frame), 0);
    ctl_run_command(&got.run, room, &command);
    assert_string_equal(command.name, "build");
    assert_string_equal(command.session, "");
    assert_string_equal(command.cwd, "/work");
    assert_same_strings(command.argv, argv_small);
    assert_same_strings(command.envp, envp_small);
    ctl_run_unmap_strings(&got.run);
    assert_null(got.run.strings);
}

static void what_is_not_said_is_empty(void **state)
{
    const struct ctl_command nothing = { 0 };
    struct ctl_request got;
    struct ctl_command command;
    struct frame frame;

    (void) state;
    assert_int_equal(encode(CTL_REQUEST_SESSION_OPEN, &plain, &nothing, -1, &frame), 0);
    assert_int_equal(ctl_request_decode(&frame, &got), 0);
    assert_true(got.run.argc == 0 && got.run.envc == 0 && got.run.strings_len == 3);
    ctl_run_command(&got.run, room, &command);
    assert_string_equal(command.name, "");
    assert_string_equal(command.session, "");
    assert_string_equal(command.cwd, "");
    assert_true(command.argv[0] == NULL && command.envp[0] == NULL);
}

/* A standard input is sent only with its flag, whatever the caller has at hand. */
static void a_standard_input_needs_its_flag(void **state)
{
    const struct ctl_run with = { .flags = CTL_RUN_STDIN };
    struct ctl_request got;
    struct frame frame;

    (void) state;
    assert_int_equal(encode(CTL_REQUEST_EXEC, &plain, &small, 5, &frame), 0);
    assert_int_equal(frame.fd_count, 0);
    frame.fd_count = 1;
    assert_int_equal(ctl_request_decode(&frame, &got), -EPROTO);
    assert_int_equal(encode(CTL_REQUEST_EXEC, &with, &small, -1, &frame), -EINVAL);
    assert_int_equal(encode(CTL_REQUEST_EXEC, &with, &small, 0, &frame), 0);
    for (frame.fd_count = 0; frame.fd_count <= 3; frame.fd_count++)
        assert_int_equal(ctl_request_decode(&frame, &got), frame.fd_count == 1 ? 0 : -EPROTO);
}

static void strings_too_long_for_a_frame_come_in_a_memfd(void **state)
{
    const char **argv = many_strings(1000, 1000);
    const struct ctl_command command = { .name = "n", .argv = argv };
    const struct ctl_run run = { .flags = CTL_RUN_STDIN };
    int before = count_fds(), fd;
    struct ctl_request got;
    struct ctl_command c;
    struct frame frame;

    (void) state;
    assert_int_equal(ctl_run_encode(CTL_REQUEST_EXEC, 7, &run, &command, 0, buf, &frame, &fd), 0);
    assert_true(fd >= 0 && frame.fd_count == 2 && frame.fds[0] == 0 && frame.fds[1] == fd && frame.len == 32);
    assert_int_equal(ctl_request_decode(&frame, &got), 0);
    assert_null(got.run.strings);
    assert_int_equal(ctl_run_map_strings(&got.run, &frame), 0);
    ctl_run_command(&got.run, room, &c);
    assert_string_equal(c.name, "n");
    assert_same_strings(c.argv, argv);
    assert_null(c.envp[0]);
    ctl_run_unmap_strings(&got.run);
    assert_null(got.run.strings);
    frame.fd_count = 1;
    assert_int_equal(ctl_request_decode(&frame, &got), -EPROTO);
    close(fd);
    free_strings(argv);
    assert_int_equal(count_fds(), before);
}

/* One byte of arguments decides. */
static void the_frame_is_filled_before_a_memfd_is_used(void **state)
{
    const size_t largest = FRAME_PAYLOAD_MAX - 32 - 3;

    (void) state;
    for (size_t len = largest; len <= largest + 1; len++) {
        const char **argv = many_strings(1, len);
        const struct ctl_command command = { .argv = argv };
        struct ctl_request got;
        struct frame frame;
        int fd;

        assert_int_equal(ctl_run_encode(CTL_REQUEST_EXEC, 7, &plain, &command, -1, buf, &frame, &fd), 0);
        assert_int_equal(fd >= 0, len > largest);
        assert_int_equal(frame.len, len > largest ? 32 : FRAME_PAYLOAD_MAX);
        assert_int_equal(ctl_request_decode(&frame, &got), 0);
        cleanup_fd(&fd);
        free_strings(argv);
    }
}

static void too_many_strings_are_told(void **state)
{
    const char **many = many_strings(CTL_STRINGS_COUNT_MAX + 1, 1), **large = many_strings(1, CTL_STRINGS_BYTES_MAX);
    const struct ctl_command commands[] = { { .argv = many }, { .argv = one, .envp = many }, { .argv = large } };
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(commands); i++)
        assert_int_equal(encode(CTL_REQUEST_EXEC, &plain, &commands[i], -1, &frame), -E2BIG);
    free_strings(many);
    free_strings(large);
}

static void every_prefix_and_every_extra_byte_is_refused(void **state)
{
    static const struct {
        enum ctl_request_type type;
        const struct ctl_command *command;
    } cases[] = { { CTL_REQUEST_EXEC, &small }, { CTL_REQUEST_SESSION_EXEC, &in_session } };

    (void) state;
    for (size_t i = 0; i < count_of(cases); i++) {
        struct ctl_request got = { .tag = 99 };
        struct frame frame;
        size_t whole;

        assert_int_equal(encode(cases[i].type, &plain, cases[i].command, -1, &frame), 0);
        whole = frame.len;
        for (frame.len = 0; frame.len <= whole + 1; frame.len++)
            if (frame.len != whole)
                assert_int_equal(ctl_request_decode(&frame, &got), -EPROTO);
        assert_true(got.tag == 99);
    }
}

#define LONG_NAME "0123456789012345678901234567890123456789012345678901234567890123"

static void each_request_has_rules_of_its_own(void **state)
{
    static const char *const two[] = { "a", "b", NULL };
    static const struct {
        enum ctl_request_type type;
        uint32_t flags;
        struct ctl_command command;
        int expected;
    } cases[] = {
        { CTL_REQUEST_EXEC, 0, { .argv = two }, 0 },
        { CTL_REQUEST_EXEC, 0, { .argv = NULL }, -EINVAL },
        { CTL_REQUEST_EXEC, 0, { .argv = one, .session = "s" }, -EINVAL },
        { CTL_REQUEST_EXEC, 0, { .argv = one, .name = LONG_NAME }, -EINVAL },
        { CTL_REQUEST_EXEC, 0, { .argv = one, .name = &LONG_NAME[1] }, 0 },
        { CTL_REQUEST_EXEC, CTL_RUN_ALL + 1, { .argv = one }, -EINVAL },
        { CTL_REQUEST_EXEC, CTL_RUN_STRINGS_FD, { .argv = one }, 0 }, /* not the caller's: it is taken off */
        { CTL_REQUEST_SESSION_OPEN, 0, { .argv = NULL }, 0 },
        { CTL_REQUEST_SESSION_OPEN, CTL_RUN_DETACHED, { .argv = one, .name = "s" }, 0 },
        { CTL_REQUEST_SESSION_OPEN, 0, { .argv = two }, -EINVAL },
        { CTL_REQUEST_SESSION_OPEN, 0, { .session = "s" }, -EINVAL },
        { CTL_REQUEST_SESSION_OPEN, CTL_RUN_TTY, { .argv = one }, -EINVAL },
        { CTL_REQUEST_SESSION_OPEN, CTL_RUN_STDIN, { .argv = one }, -EINVAL },
        { CTL_REQUEST_SESSION_EXEC, CTL_RUN_DETACHED, { .argv = one, .session = "s" }, 0 },
        { CTL_REQUEST_SESSION_EXEC, 0, { .argv = one }, -EINVAL },
        { CTL_REQUEST_SESSION_EXEC, 0, { .argv = one, .session = LONG_NAME }, -EINVAL },
        { CTL_REQUEST_SESSION_EXEC, 0, { .session = "s" }, -EINVAL },
        { CTL_REQUEST_SESSION_EXEC, 0, { .argv = two, .session = "s" }, -EINVAL },
        { CTL_REQUEST_SESSION_EXEC, CTL_RUN_TTY, { .argv = one, .session = "s" }, -EINVAL },
        { CTL_REQUEST_SESSION_EXEC, CTL_RUN_STDIN, { .argv = one, .session = "s" }, -EINVAL },
        { CTL_REQUEST_STATUS, 0, { .argv = one }, -EINVAL },
    };
    struct frame frame;
    int fd;

    (void) state;
    for (size_t i = 0; i < count_of(cases); i++) {
        const struct ctl_run run = { .flags = cases[i].flags };
        struct ctl_request got;

        assert_int_equal(encode(cases[i].type, &run, &cases[i].command, 0, &frame), cases[i].expected);
        if (cases[i].expected == 0)
            assert_int_equal(ctl_request_decode(&frame, &got), 0);
    }
    assert_int_equal(ctl_run_encode(CTL_REQUEST_EXEC, 0, &plain, &small, -1, buf, &frame, &fd), -EINVAL);
}

/* A payload field by field, as an encoder of ours would never write it. */
struct raw {
    uint16_t type;
    uint64_t tag;
    uint32_t flags, argc, envc, strings_len;
    const char *strings;
    size_t strings_sent, fd_count;
};

static int decode_raw(const struct raw *raw)
{
    struct frame frame = { .id = raw->tag, .type = raw->type, .payload = buf, .fd_count = raw->fd_count };
    struct ctl_request got;
    struct writer w;

    writer_init(&w, buf, sizeof(buf));
    writer_u32(&w, raw->flags);
    writer_u32(&w, 0);
    writer_u64(&w, 0);
    writer_u32(&w, 0);
    writer_u32(&w, raw->argc);
    writer_u32(&w, raw->envc);
    writer_u32(&w, raw->strings_len);
    writer_bytes(&w, raw->strings, raw->strings_sent);
    frame.len = w.len;
    return ctl_request_decode(&frame, &got);
}

static void malformed_fields_are_refused(void **state)
{
    const struct raw good = { .type = CTL_REQUEST_EXEC,
                              .tag = 1,
                              .argc = 1,
                              .envc = 1,
                              .strings_len = 8,
                              .strings = "n\0\0\0x\0y\0z",
                              .strings_sent = 8 };
    struct raw bad;

    (void) state;
    assert_int_equal(decode_raw(&good), 0);
#define REFUSED(...)                                                                                                           \
    do {                                                                                                                       \
        bad = good;                                                                                                            \
        __VA_ARGS__;                                                                                                           \
        assert_int_equal(decode_raw(&bad), -EPROTO);                                                                           \
    } while (0)
    REFUSED(bad.tag = 0);
    REFUSED(bad.flags = CTL_RUN_ALL + 1);
    REFUSED(bad.flags = UINT32_MAX);
    REFUSED(bad.flags = CTL_RUN_STDIN);
    REFUSED(bad.fd_count = 1);
    REFUSED(bad.argc = 0, bad.envc = 2);
    REFUSED(bad.argc = 2);
    REFUSED(bad.envc = 0);
    REFUSED(bad.argc = UINT32_MAX);
    REFUSED(bad.envc = UINT32_MAX);
    REFUSED(bad.argc = 0x80000001u, bad.envc = 0x80000001u);
    REFUSED(bad.argc = CTL_STRINGS_COUNT_MAX);
    REFUSED(bad.strings_len = 7);
    REFUSED(bad.strings_len = 9);
    REFUSED(bad.strings_len = 0, bad.strings_sent = 0);
    REFUSED(bad.strings_len = UINT32_MAX);
    REFUSED(bad.strings_len = 7, bad.strings_sent = 7);        /* the last has no NUL */
    REFUSED(bad.strings_len = 9, bad.strings_sent = 9);        /* one more, without a NUL */
    REFUSED(bad.strings = "n\0s\0\0x\0");                      /* of a session */
    REFUSED(bad.flags = CTL_RUN_STRINGS_FD, bad.fd_count = 1); /* and strings in the frame */
    REFUSED(bad.flags = CTL_RUN_STRINGS_FD, bad.strings_sent = 0);
    REFUSED(bad.flags = CTL_RUN_STRINGS_FD, bad.fd_count = 1, bad.strings_sent = 0,
            bad.strings_len = CTL_STRINGS_BYTES_MAX + 1);
    REFUSED(bad.type = CTL_REQUEST_SESSION_EXEC);
    REFUSED(bad.type = CTL_REQUEST_SESSION_OPEN, bad.argc = 2, bad.envc = 0);
    REFUSED(bad.type = CTL_REQUEST_SESSION_OPEN, bad.flags = CTL_RUN_STDIN, bad.fd_count = 1);
    REFUSED(bad.strings = LONG_NAME "\0\0\0x\0y", bad.strings_len = 71, bad.strings_sent = 71);
#undef REFUSED
    bad = good;
    bad.flags = CTL_RUN_STRINGS_FD;
    bad.fd_count = 1;
    bad.strings_sent = 0;
    assert_int_equal(decode_raw(&bad), 0);
}

#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int map(enum ctl_request_type type, const char *strings, size_t sent, size_t announced, int seals)
{
    struct ctl_run run = { .flags = CTL_RUN_STRINGS_FD, .argc = 1, .strings_len = (uint32_t) announced };
    autofd int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct frame frame = { .type = (uint16_t) type, .fd_count = 1, .fds = { fd } };
    int r;

    assert_int_equal(write(fd, strings, sent), (ssize_t) sent);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    r = ctl_run_map_strings(&run, &frame);
    assert_int_equal(run.strings != NULL, r == 0);
    ctl_run_unmap_strings(&run);
    return r;
}

static void strings_in_a_memfd_are_checked_as_those_in_the_frame(void **state)
{
    (void) state;
    assert_int_equal(map(CTL_REQUEST_EXEC, "n\0\0\0x", 6, 6, ALL_SEALS), 0);
    assert_int_equal(map(CTL_REQUEST_EXEC, "n\0\0\0x", 6, 6, ALL_SEALS & ~F_SEAL_WRITE), -EINVAL);
    assert_int_equal(map(CTL_REQUEST_EXEC, "n\0\0\0x", 6, 7, ALL_SEALS), -EINVAL);
    assert_int_equal(map(CTL_REQUEST_EXEC, "n\0\0\0x", 5, 5, ALL_SEALS), -EPROTO);
    assert_int_equal(map(CTL_REQUEST_EXEC, "n\0s\0\0x", 7, 7, ALL_SEALS), -EPROTO);
    assert_int_equal(map(CTL_REQUEST_SESSION_EXEC, "n\0s\0\0x", 7, 7, ALL_SEALS), 0);
    assert_int_equal(map(CTL_REQUEST_SESSION_EXEC, "n\0\0\0x", 6, 6, ALL_SEALS), -EPROTO);
    assert_int_equal(map(CTL_REQUEST_EXEC, LONG_NAME "\0\0\0x", 69, 69, ALL_SEALS), -EPROTO);
}

/* The whole way, through a socket. */
static void a_run_goes_through_a_socket(void **state)
{
    const char **argv = many_strings(100, 1000);
    const struct ctl_command command = { .argv = argv };
    const struct ctl_run run = { .flags = CTL_RUN_STDIN };
    static char incoming[FRAME_PAYLOAD_MAX];
    struct pair *p = *state;
    struct frame frame, got;
    struct ctl_request request;
    int fd;

    assert_int_equal(ctl_run_encode(CTL_REQUEST_EXEC, 7, &run, &command, p->a, buf, &frame, &fd), 0);
    assert_int_equal(frame_send(p->a, &frame, FRAME_NOWAIT), 0);
    cleanup_fd(&fd);
    assert_int_equal(frame_receive(p->b, incoming, sizeof(incoming), FRAME_NOWAIT, &got), 0);
    assert_int_equal(ctl_request_decode(&got, &request), 0);
    assert_int_equal(ctl_run_map_strings(&request.run, &got), 0);
    frame_close_fds(&got); /* the mapping stays */
    assert_int_equal(request.run.argc, 100);
    ctl_run_unmap_strings(&request.run);
    free_strings(argv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_survives_the_way),
        cmocka_unit_test(limits_and_a_note_survive_the_way),
        cmocka_unit_test(what_is_not_said_is_empty),
        cmocka_unit_test(a_standard_input_needs_its_flag),
        cmocka_unit_test(strings_too_long_for_a_frame_come_in_a_memfd),
        cmocka_unit_test(the_frame_is_filled_before_a_memfd_is_used),
        cmocka_unit_test(too_many_strings_are_told),
        cmocka_unit_test(every_prefix_and_every_extra_byte_is_refused),
        cmocka_unit_test(each_request_has_rules_of_its_own),
        cmocka_unit_test(malformed_fields_are_refused),
        cmocka_unit_test(strings_in_a_memfd_are_checked_as_those_in_the_frame),
        pair_test(a_run_goes_through_a_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
