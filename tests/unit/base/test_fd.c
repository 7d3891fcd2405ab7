#include "fixture.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#define BULK (1u << 20)

static void on_alarm(int signal)
{
    (void) signal;
}

/* Interrupts every system call that waits, without SA_RESTART. */
static void interrupt_often(bool on)
{
    const struct itimerval timer = { { 0, on ? 300 : 0 }, { 0, on ? 300 : 0 } };
    const struct sigaction action = { .sa_handler = on_alarm };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void *write_in_pieces(void *arg)
{
    int fd = *(int *) arg;

    for (size_t i = 0; i < BULK;) {
        char piece[700];
        size_t n = BULK - i < sizeof(piece) ? BULK - i : sizeof(piece);

        for (size_t k = 0; k < n; k++)
            piece[k] = (char) ((i + k) % 251);
        ssize_t w = write(fd, piece, n);
        if (w > 0)
            i += (size_t) w;
    }
    close(fd);
    return NULL;
}

static bool is_bulk(const char *bytes)
{
    for (size_t i = 0; i < BULK; i++)
        if (bytes[i] != (char) (i % 251))
            return false;
    return true;
}

static void reading_goes_on_after_short_reads_and_signals(void **state)
{
    autofree char *bytes = xalloc(BULK);
    pthread_t writer;
    int ends[2];
    char more;

    (void) state;
    assert_int_equal(pipe(ends), 0);
    interrupt_often(true);
    pthread_create(&writer, NULL, write_in_pieces, &ends[1]);
    ssize_t n = fd_read_full(ends[0], bytes, BULK);
    interrupt_often(false);
    pthread_join(writer, NULL);
    assert_int_equal(n, BULK);
    assert_true(is_bulk(bytes));
    assert_int_equal(fd_read_full(ends[0], &more, 1), 0);
    close(ends[0]);
}

static void *read_slowly(void *arg)
{
    char *bytes = xalloc(BULK);
    size_t done = 0;
    ssize_t n;

    while ((n = read(*(int *) arg, bytes + done, BULK - done < 999 ? BULK - done : 999)) != 0)
        if (n > 0)
            done += (size_t) n;
    return bytes;
}

static void writing_goes_on_after_short_writes_and_signals(void **state)
{
    autofree char *bytes = xalloc(BULK), *got = NULL;
    pthread_t reader;
    int ends[2], r;
    void *result;

    (void) state;
    for (size_t i = 0; i < BULK; i++)
        bytes[i] = (char) (i % 251);
    assert_int_equal(pipe(ends), 0);
    interrupt_often(true);
    pthread_create(&reader, NULL, read_slowly, &ends[0]);
    r = fd_write_full(ends[1], bytes, BULK);
    close(ends[1]);
    pthread_join(reader, &result);
    interrupt_often(false);
    got = result;
    assert_int_equal(r, 0);
    assert_true(is_bulk(got));
    close(ends[0]);
}

static void positions_are_read_and_written_without_moving_the_offset(void **state)
{
    struct scratch *s = *state;
    autofd int fd = openat(s->fd, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    char got[8] = "";

    assert_int_equal(fd_pwrite_full(fd, "abcdef", 6, 10), 0);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    assert_int_equal(fd_pread_full(fd, got, 3, 12), 3);
    assert_string_equal(got, "cde");
    assert_int_equal(fd_pread_full(fd, got, sizeof(got), 14), 2);
    assert_int_equal(fd_pread_full(fd, got, sizeof(got), 99), 0);
}

static void a_full_disk_is_told(void **state)
{
    autofd int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void) state;
    assert_true(full >= 0);
    assert_int_equal(fd_write_full(full, "x", 1), -ENOSPC);
    assert_int_equal(fd_pwrite_full(full, "x", 1, 0), -ENOSPC);
}

static int write_past_the_limit(void *arg)
{
    struct scratch *s = arg;
    const struct rlimit limit = { 1000, 1000 };
    char bytes[4096] = "";
    int fd = openat(s->fd, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    /* The first write is short (1000 bytes), the second is refused. */
    CHECK(fd_write_full(fd, bytes, sizeof(bytes)) == -EFBIG);
    CHECK(lseek(fd, 0, SEEK_END) == 1000);
    return 0;
}

static void a_write_that_only_begins_is_a_failure(void **state)
{
    assert_int_equal(in_child(write_past_the_limit, *state), 0);
}

static void reading_all_stops_at_the_limit(void **state)
{
    struct scratch *s = *state;
    autodone(buf) struct buf b = BUF_EMPTY;
    autofd int fd = openat(s->fd, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    autofree char *bytes = xalloc(40000);

    memset(bytes, 'x', 40000);
    assert_int_equal(fd_write_full(fd, bytes, 40000), 0);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(fd_read_all(fd, 40000, &b), 0);
    assert_int_equal(b.len, 40000);
    buf_clear(&b);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(fd_read_all(fd, 39999, &b), -EFBIG);
    assert_int_equal(b.len, 39999);
    buf_clear(&b);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(fd_read_all(fd, 0, &b), -EFBIG);
    lseek(fd, 40000, SEEK_SET);
    assert_int_equal(fd_read_all(fd, 0, &b), 0);
    assert_int_equal(fd_read_all(fd, SIZE_MAX, &b), 0);
    assert_int_equal(b.len, 0);
}

static void an_endless_input_is_not_read_for_ever(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    autofd int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);

    (void) state;
    assert_int_equal(fd_read_all(zero, 100000, &b), -EFBIG);
    assert_int_equal(b.len, 100000);
}

static void non_blocking_means_eagain_and_can_be_undone(void **state)
{
    int ends[2];
    char c;

    (void) state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fd_set_nonblock(ends[0], true), 0);
    assert_int_equal(fd_read_full(ends[0], &c, 1), -EAGAIN);
    assert_int_equal(fd_set_nonblock(ends[0], false), 0);
    assert_int_equal(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(fd_set_nonblock(ends[0], true), -EBADF);
}

static void cloexec_is_set_and_cleared(void **state)
{
    autofd int fd = dup(2);

    (void) state;
    assert_int_equal(fd_cloexec(fd, true), 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fd_cloexec(fd, false), 0);
    assert_int_equal(fcntl(fd, F_GETFD), 0);
    assert_int_equal(fd_cloexec(-1, true), -EBADF);
}

static void a_moved_descriptor_is_high_and_cloexec(void **state)
{
    autofd int fd = fd_move_above(2, 100);

    (void) state;
    assert_true(fd >= 100);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fd_move_above(-1, 100), -EBADF);
}

static int close_above_three(void *arg)
{
    (void) arg;
    for (int fd = 3; fd < 400; fd++)
        dup2(2, fd);
    CHECK(fd_close_above(3) == 0);
    for (int fd = 0; fd < 3; fd++)
        CHECK(fcntl(fd, F_GETFD) >= 0);
    for (int fd = 3; fd < 400; fd++)
        CHECK(fcntl(fd, F_GETFD) < 0);
    return 0;
}

static void all_above_are_closed_and_none_below(void **state)
{
    (void) state;
    assert_int_equal(in_child(close_above_three, NULL), 0);
}

static int close_the_others(void *arg)
{
    static const int keep[] = { 0, 2, 5, 6, 200 };
    size_t next = 0;

    (void) arg;
    for (int fd = 0; fd < 400; fd++)
        if (fd != 2)
            dup2(2, fd);
    CHECK(fd_close_all_but(keep, ARRAY_LEN(keep)) == 0);
    for (int fd = 0; fd < 400; fd++) {
        bool kept = next < ARRAY_LEN(keep) && keep[next] == fd;

        CHECK((fcntl(fd, F_GETFD) >= 0) == kept);
        next += kept;
    }
    return 0;
}

static void exactly_the_named_ones_are_kept(void **state)
{
    (void) state;
    assert_int_equal(in_child(close_the_others, NULL), 0);
}

static int close_without_a_free_descriptor(void *arg)
{
    const struct rlimit limit = { 64, 64 };

    (void) arg;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (dup(2) >= 0)
        ;
    CHECK(errno == EMFILE);
    CHECK(fd_close_above(3) == 0);
    for (int fd = 3; fd < 64; fd++)
        CHECK(fcntl(fd, F_GETFD) < 0);
    return 0;
}

static void closing_works_when_no_descriptor_is_left(void **state)
{
    (void) state;
    assert_int_equal(in_child(close_without_a_free_descriptor, NULL), 0);
}

int main(void)
{
    static const int missing[] = { SYS_close_range };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_goes_on_after_short_reads_and_signals),
        cmocka_unit_test(writing_goes_on_after_short_writes_and_signals),
        scratch_test(positions_are_read_and_written_without_moving_the_offset),
        cmocka_unit_test(a_full_disk_is_told),
        scratch_test(a_write_that_only_begins_is_a_failure),
        scratch_test(reading_all_stops_at_the_limit),
        cmocka_unit_test(an_endless_input_is_not_read_for_ever),
        cmocka_unit_test(non_blocking_means_eagain_and_can_be_undone),
        cmocka_unit_test(cloexec_is_set_and_cleared),
        cmocka_unit_test(a_moved_descriptor_is_high_and_cloexec),
    };
    const struct CMUnitTest closing[] = {
        cmocka_unit_test(all_above_are_closed_and_none_below),
        cmocka_unit_test(exactly_the_named_ones_are_kept),
        cmocka_unit_test(closing_works_when_no_descriptor_is_left),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    failed += cmocka_run_group_tests_name("with close_range", closing, NULL, NULL);
    if (deny_syscalls(missing, ARRAY_LEN(missing)))
        failed += cmocka_run_group_tests_name("without close_range", closing, NULL, NULL);
    return failed;
}
