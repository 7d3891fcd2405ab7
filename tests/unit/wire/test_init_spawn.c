#include "fixture.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "wire/init_proto.h"
#include "wire/writer.h"

static const char *const argv_small[] = { "/bin/sh", "-c", "", "a b", NULL };
static const char *const envp_small[] = { "A=1", "", "PATH=/bin", NULL };
static const char *const none[] = { NULL };
static const int standard[] = { 0, 1, 2, 0, 1, 2, 0 };

static const struct init_command command_small = {
    .cwd = "/work", .argv = argv_small, .envp = envp_small, .fds = standard, .fd_count = 3
};

static char buf[FRAME_PAYLOAD_MAX];
static char *room[INIT_STRINGS_COUNT_MAX + 2];

static int encode(const struct init_spawn *spawn, const struct init_command *command, struct frame *ret, int *ret_fd)
{
    return init_spawn_encode(7, spawn, command, buf, ret, ret_fd);
}

static void assert_same_strings(char **got, const char *const *expected)
{
    for (; *expected; got++, expected++)
        assert_string_equal(*got, *expected);
    assert_null(*got);
}

static void every_field_survives_the_way(void **state)
{
    const struct init_spawn spawn = {
        .flags = INIT_SPAWN_SESSION | INIT_SPAWN_USER,
        .uid = 1000,
        .gid = UINT32_MAX - 1,
        .rows = 65535,
        .cols = 80,
        .rlimit_count = 2,
        .rlimits = { { RLIMIT_NPROC, 10, 20 }, { RLIMIT_CORE, 0, UINT64_MAX } },
    };
    struct init_request got;
    struct init_vectors v;
    struct frame frame;
    int fd;

    (void) state;
    assert_int_equal(encode(&spawn, &command_small, &frame, &fd), 0);
    assert_int_equal(fd, -1);
    assert_int_equal(init_request_decode(&frame, &got), 0);
    assert_int_equal(got.type, INIT_REQUEST_SPAWN);
    assert_true(got.id == 7 && got.spawn.flags == spawn.flags && got.spawn.uid == 1000 && got.spawn.gid == spawn.gid);
    assert_true(got.spawn.rows == 65535 && got.spawn.cols == 80 && got.spawn.rlimit_count == 2);
    assert_memory_equal(got.spawn.rlimits, spawn.rlimits, 2 * sizeof(spawn.rlimits[0]));
    assert_true(got.spawn.argc == 4 && got.spawn.envc == 3);
    assert_int_equal(init_spawn_fd_count(&got.spawn, &frame), 3);
    assert_int_equal(init_spawn_map_strings(&got.spawn, &frame), 0);
    init_spawn_vectors(&got.spawn, room, &v);
    assert_string_equal(v.cwd, "/work");
    assert_same_strings(v.argv, argv_small);
    assert_same_strings(v.envp, envp_small);
    init_spawn_unmap_strings(&got.spawn);
}

static void strings_too_long_for_a_frame_come_in_a_memfd(void **state)
{
    const char **argv = many_strings(1000, 1000);
    const struct init_command command = { .cwd = "/", .argv = argv, .envp = none, .fds = standard, .fd_count = 7 };
    const struct init_spawn spawn = { .flags = 0 };
    int before = count_fds(), fd;
    struct init_request got;
    struct init_vectors v;
    struct frame frame;

    (void) state;
    assert_int_equal(encode(&spawn, &command, &frame, &fd), 0);
    assert_true(fd >= 0 && frame.fd_count == 8 && frame.fds[7] == fd && frame.len < 100);
    assert_int_equal(init_request_decode(&frame, &got), 0);
    assert_int_equal(init_spawn_fd_count(&got.spawn, &frame), 7);
    assert_null(got.spawn.strings);
    assert_int_equal(init_spawn_map_strings(&got.spawn, &frame), 0);
    init_spawn_vectors(&got.spawn, room, &v);
    assert_string_equal(v.cwd, "/");
    assert_same_strings(v.argv, argv);
    assert_null(v.envp[0]);
    init_spawn_unmap_strings(&got.spawn);
    assert_null(got.spawn.strings);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    close(fd);
    free_strings(argv);
    assert_int_equal(count_fds(), before);
}

/* One byte of arguments decides. */
static void the_frame_is_filled_before_a_memfd_is_used(void **state)
{
    const struct init_spawn spawn = { .flags = 0 };
    const size_t largest = FRAME_PAYLOAD_MAX - 32 - 2; /* without the fixed part and the directory */

    (void) state;
    for (size_t len = largest; len <= largest + 1; len++) {
        const char **argv = many_strings(1, len);
        const struct init_command command = { .cwd = "/", .argv = argv, .envp = none, .fds = standard, .fd_count = 3 };
        struct init_request got;
        struct frame frame;
        int fd;

        assert_int_equal(encode(&spawn, &command, &frame, &fd), 0);
        assert_int_equal(fd >= 0, len > largest);
        assert_int_equal(frame.len, len > largest ? 32 : FRAME_PAYLOAD_MAX);
        assert_int_equal(init_request_decode(&frame, &got), 0);
        cleanup_fd(&fd);
        free_strings(argv);
    }
}

static void limits_of_the_strings(void **state)
{
    static const struct {
        size_t count, len;
        int expected;
    } cases[] = {
        { 1, INIT_STRINGS_BYTES_MAX - 2, 0 },
        { 1, INIT_STRINGS_BYTES_MAX - 1, -E2BIG },
        { INIT_STRINGS_COUNT_MAX, 1, 0 },
        { INIT_STRINGS_COUNT_MAX + 1, 1, -E2BIG },
        { INIT_STRINGS_COUNT_MAX * 2, 100, -E2BIG },
        { 5000, 1000, -E2BIG },
    };
    const struct init_spawn spawn = { .flags = 0 };
    struct frame frame;

    (void) state;
    for (size_t i = 0; i < count_of(cases); i++) {
        const char **argv = many_strings(cases[i].count, cases[i].len);
        const struct init_command command = { .cwd = "/", .argv = argv, .envp = none, .fds = standard, .fd_count = 3 };
        int fd = -1;

        assert_int_equal(encode(&spawn, &command, &frame, &fd), cases[i].expected);
        cleanup_fd(&fd);
        free_strings(argv);
    }
    const char **half = many_strings(INIT_STRINGS_COUNT_MAX / 2 + 1, 1);
    const struct init_command both = { .cwd = "/", .argv = half, .envp = half, .fds = standard, .fd_count = 3 };
    int fd;
    assert_int_equal(encode(&spawn, &both, &frame, &fd), -E2BIG);
    free_strings(half);
}

static void what_no_decoder_would_take_is_not_encoded(void **state)
{
    static const struct init_spawn bad[] = {
        { .flags = 1u << 4 },
        { .flags = INIT_SPAWN_USER, .uid = UINT32_MAX, .gid = 1 },
        { .flags = INIT_SPAWN_USER, .uid = 1, .gid = UINT32_MAX },
        { .uid = 1 },
        { .gid = 1 },
        { .rlimit_count = INIT_SPAWN_RLIMITS_MAX + 1 },
        { .rlimit_count = 1, .rlimits = { { 16, 0, 0 } } },
        { .rlimit_count = 1, .rlimits = { { RLIMIT_CORE, 2, 1 } } },
    };
    const struct init_spawn good = { .flags = 0 };
    struct init_command no_argv = command_small;
    struct frame frame;
    int fd;

    (void) state;
    for (size_t i = 0; i < count_of(bad); i++)
        assert_int_equal(encode(&bad[i], &command_small, &frame, &fd), -EINVAL);
    no_argv.argv = none;
    assert_int_equal(encode(&good, &no_argv, &frame, &fd), -EINVAL);
    assert_int_equal(init_spawn_encode(0, &good, &command_small, buf, &frame, &fd), -EINVAL);
}

static void the_number_of_descriptors_is_bounded(void **state)
{
    struct init_command command = command_small;

    (void) state;
    for (uint32_t tty = 0; tty <= 1; tty++) {
        const struct init_spawn spawn = { .flags = tty ? INIT_SPAWN_TTY : 0 };

        for (command.fd_count = 0; command.fd_count <= 9; command.fd_count++) {
            bool good = tty ? command.fd_count <= 4 : command.fd_count >= 3 && command.fd_count <= 7;
            struct init_request got;
            struct frame frame;
            int fd;

            assert_int_equal(encode(&spawn, &command, &frame, &fd), good ? 0 : -EINVAL);
            if (!good)
                continue;
            assert_int_equal(init_request_decode(&frame, &got), 0);
            frame.fd_count = tty ? 5 : 2;
            assert_int_equal(init_request_decode(&frame, &got), -EPROTO);
            frame.fd_count = 8;
            assert_int_equal(init_request_decode(&frame, &got), -EPROTO);
        }
    }
}

static void every_prefix_and_every_extra_byte_is_refused(void **state)
{
    const struct init_spawn spawn = { .rlimit_count = 1, .rlimits = { { RLIMIT_CORE, 1, 1 } } };
    struct init_request got = { .id = 99 };
    struct frame frame;
    size_t whole;
    int fd;

    (void) state;
    encode(&spawn, &command_small, &frame, &fd);
    whole = frame.len;
    for (frame.len = 0; frame.len < whole; frame.len++)
        assert_int_equal(init_request_decode(&frame, &got), -EPROTO);
    frame.len = whole + 1;
    assert_int_equal(init_request_decode(&frame, &got), -EPROTO);
    assert_true(got.id == 99);
}

/* A payload field by field, as an encoder of ours would never write it. */
struct raw {
    uint32_t flags, uid, gid, rlimit_count, resource, argc, envc, strings_len;
    const char *strings;
    size_t strings_sent;
};

static int decode_raw(const struct raw *raw, size_t fd_count)
{
    struct init_request got;
    struct frame frame = { .id = 1, .type = INIT_REQUEST_SPAWN, .payload = buf, .fd_count = fd_count };
    struct writer w;

    writer_init(&w, buf, sizeof(buf));
    writer_u32(&w, raw->flags);
    writer_u32(&w, raw->uid);
    writer_u32(&w, raw->gid);
    writer_u32(&w, 0);
    writer_u32(&w, raw->rlimit_count);
    if (raw->rlimit_count == 1) {
        writer_u32(&w, raw->resource);
        writer_u64(&w, 1);
        writer_u64(&w, 1);
    }
    writer_u32(&w, raw->argc);
    writer_u32(&w, raw->envc);
    writer_u32(&w, raw->strings_len);
    writer_bytes(&w, raw->strings, raw->strings_sent);
    frame.len = w.len;
    return init_request_decode(&frame, &got);
}

static void malformed_fields_are_refused(void **state)
{
    const struct raw good = { .argc = 1, .envc = 1, .strings_len = 6, .strings = "/\0x\0y\0z", .strings_sent = 6 };
    struct raw bad;

    (void) state;
    assert_int_equal(decode_raw(&good, 3), 0);
#define REFUSED(...)                                                                                                           \
    do {                                                                                                                       \
        bad = good;                                                                                                            \
        __VA_ARGS__;                                                                                                           \
        assert_int_equal(decode_raw(&bad, 3), -EPROTO);                                                                        \
    } while (0)
    REFUSED(bad.flags = INIT_SPAWN_ALL + 1);
    REFUSED(bad.flags = UINT32_MAX);
    REFUSED(bad.uid = 1);
    REFUSED(bad.gid = 1);
    REFUSED(bad.flags = INIT_SPAWN_USER, bad.uid = UINT32_MAX);
    REFUSED(bad.flags = INIT_SPAWN_USER, bad.gid = UINT32_MAX);
    REFUSED(bad.rlimit_count = 1, bad.resource = 16);
    REFUSED(bad.rlimit_count = 17);
    REFUSED(bad.rlimit_count = UINT32_MAX);
    REFUSED(bad.argc = 0, bad.envc = 2);
    REFUSED(bad.argc = 2);
    REFUSED(bad.argc = 2, bad.envc = 1);
    REFUSED(bad.envc = 0);
    REFUSED(bad.argc = UINT32_MAX);
    REFUSED(bad.argc = 1, bad.envc = UINT32_MAX);
    REFUSED(bad.argc = 0x80000001u, bad.envc = 0x80000001u);
    REFUSED(bad.argc = INIT_STRINGS_COUNT_MAX, bad.envc = 1);
    REFUSED(bad.strings_len = 5);
    REFUSED(bad.strings_len = 7);
    REFUSED(bad.strings_len = 0, bad.strings_sent = 0);
    REFUSED(bad.strings_len = UINT32_MAX);
    REFUSED(bad.strings_len = 5, bad.strings_sent = 5); /* the last has no NUL */
    REFUSED(bad.strings_len = 7, bad.strings_sent = 7); /* one more, without a NUL */
    REFUSED(bad.flags = INIT_SPAWN_STRINGS_FD);         /* and strings in the frame */
    REFUSED(bad.flags = INIT_SPAWN_STRINGS_FD, bad.strings_sent = 0, bad.strings_len = INIT_STRINGS_BYTES_MAX + 1);
#undef REFUSED
    bad = good;
    bad.flags = INIT_SPAWN_STRINGS_FD | INIT_SPAWN_TTY;
    bad.strings_sent = 0;
    assert_int_equal(decode_raw(&bad, 0), -EPROTO);
    assert_int_equal(decode_raw(&bad, 1), 0);
}

#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int map(const char *strings, size_t sent, size_t announced, int seals)
{
    struct init_spawn spawn = { .flags = INIT_SPAWN_STRINGS_FD, .argc = 1, .envc = 0, .strings_len = (uint32_t) announced };
    autofd int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct frame frame = { .fd_count = 1, .fds = { fd } };
    int r;

    assert_int_equal(write(fd, strings, sent), (ssize_t) sent);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    r = init_spawn_map_strings(&spawn, &frame);
    if (r < 0)
        assert_null(spawn.strings);
    init_spawn_unmap_strings(&spawn);
    return r;
}

static void only_a_sealed_memfd_of_the_right_size_is_mapped(void **state)
{
    (void) state;
    assert_int_equal(map("/\0true", 7, 7, ALL_SEALS), 0);
    assert_int_equal(map("/\0true", 7, 7, ALL_SEALS & ~F_SEAL_WRITE), -EINVAL);
    assert_int_equal(map("/\0true", 7, 7, ALL_SEALS & ~F_SEAL_SHRINK), -EINVAL);
    assert_int_equal(map("/\0true", 7, 7, ALL_SEALS & ~F_SEAL_GROW), -EINVAL);
    assert_int_equal(map("/\0true", 7, 7, ALL_SEALS & ~F_SEAL_SEAL), -EINVAL);
    assert_int_equal(map("/\0true", 7, 7, 0), -EINVAL);
    assert_int_equal(map("/\0true", 7, 8, ALL_SEALS), -EINVAL);
    assert_int_equal(map("/\0true", 7, 6, ALL_SEALS), -EINVAL);
    assert_int_equal(map("", 0, 0, ALL_SEALS), -EINVAL);
    assert_int_equal(map("/\0true", 6, 6, ALL_SEALS), -EPROTO);
    assert_int_equal(map("/\0true\0", 8, 8, ALL_SEALS), -EPROTO);
    assert_int_equal(map("/true", 6, 6, ALL_SEALS), -EPROTO);
}

static void other_files_are_not_mapped(void **state)
{
    struct init_spawn spawn = { .flags = INIT_SPAWN_STRINGS_FD, .argc = 1, .strings_len = 7 };
    struct frame frame = { .fd_count = 1 };
    autofd int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC), file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    (void) state;
    frame.fds[0] = null_fd;
    assert_int_equal(init_spawn_map_strings(&spawn, &frame), -EINVAL);
    frame.fds[0] = file;
    assert_int_equal(init_spawn_map_strings(&spawn, &frame), -EINVAL);
    frame.fds[0] = -1;
    assert_int_equal(init_spawn_map_strings(&spawn, &frame), -EINVAL);
}

/* The whole way, through a socket. */
static void a_spawn_goes_through_a_socket(void **state)
{
    const struct init_spawn spawn = { .flags = INIT_SPAWN_SESSION };
    static char incoming[FRAME_PAYLOAD_MAX];
    struct pair *p = *state;
    struct frame frame, got;
    struct init_request request;
    int fd;

    assert_int_equal(encode(&spawn, &command_small, &frame, &fd), 0);
    assert_int_equal(frame_send(p->a, &frame, FRAME_NOWAIT), 0);
    assert_int_equal(frame_receive(p->b, incoming, sizeof(incoming), FRAME_NOWAIT, &got), 0);
    assert_int_equal(init_request_decode(&got, &request), 0);
    assert_int_equal(got.fd_count, 3);
    frame_close_fds(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_survives_the_way),
        cmocka_unit_test(strings_too_long_for_a_frame_come_in_a_memfd),
        cmocka_unit_test(the_frame_is_filled_before_a_memfd_is_used),
        cmocka_unit_test(limits_of_the_strings),
        cmocka_unit_test(what_no_decoder_would_take_is_not_encoded),
        cmocka_unit_test(the_number_of_descriptors_is_bounded),
        cmocka_unit_test(every_prefix_and_every_extra_byte_is_refused),
        cmocka_unit_test(malformed_fields_are_refused),
        cmocka_unit_test(only_a_sealed_memfd_of_the_right_size_is_mapped),
        cmocka_unit_test(other_files_are_not_mapped),
        pair_test(a_spawn_goes_through_a_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
