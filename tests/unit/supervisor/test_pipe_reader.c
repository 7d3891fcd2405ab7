#include "supervisor/pipe_reader.h"

#include "fixture.h"

#include <sys/prctl.h>

struct sink {
    struct reactor reactor;
    struct pipe_reader reader;
    int write_fd;
    size_t len;
    bool is_full, has_ended, closes_at_end;
};

static bool take(const void *bytes, size_t len, void *cookie)
{
    struct sink *sink = cookie;

    (void) bytes;
    assert_true(len > 0 && len <= PIPE_READER_CHUNK);
    sink->len += len;
    return !sink->is_full;
}

static void at_end(void *cookie)
{
    struct sink *sink = cookie;

    assert_false(sink->has_ended);
    sink->has_ended = true;
}

static int setup(void **state)
{
    struct sink *sink = xnew(struct sink);

    assert_int_equal(reactor_init(&sink->reactor), 0);
    assert_int_equal(pipe_reader_open(&sink->reader, &sink->reactor, take, at_end, sink, &sink->write_fd), 0);
    *state = sink;
    return 0;
}

static int teardown(void **state)
{
    struct sink *sink = *state;

    pipe_reader_close(&sink->reader);
    if (sink->write_fd >= 0)
        close(sink->write_fd);
    reactor_done(&sink->reactor);
    free(sink);
    return 0;
}

static void put(const struct sink *sink, size_t len)
{
    char *bytes = xalloc(len);

    assert_int_equal(write(sink->write_fd, bytes, len), len);
    free(bytes);
}

static void hang_up(struct sink *sink)
{
    close(sink->write_fd);
    sink->write_fd = -1;
}

static void what_comes_is_handed_on(void **state)
{
    struct sink *sink = *state;

    put(sink, 10);
    turn_for(&sink->reactor, 20);
    assert_int_equal(sink->len, 10);
    put(sink, 65536);
    turn_for(&sink->reactor, 20);
    assert_int_equal(sink->len, 65546);
    hang_up(sink);
    turn_until(&sink->reactor, &sink->has_ended);
    assert_int_equal(sink->reader.fd, -1);
}

static void a_full_sink_makes_it_pause(void **state)
{
    struct sink *sink = *state;

    sink->is_full = true;
    put(sink, 100);
    turn_for(&sink->reactor, 20);
    assert_int_equal(sink->len, 100); /* what it had read it gave */
    assert_true(pipe_reader_is_paused(&sink->reader));
    put(sink, 50);
    hang_up(sink);
    turn_for(&sink->reactor, 20);
    pipe_reader_drain(&sink->reader);
    assert_int_equal(sink->len, 100);
    assert_false(sink->has_ended);
    sink->is_full = false;
    pipe_reader_resume(&sink->reader);
    pipe_reader_resume(&sink->reader);
    turn_until(&sink->reactor, &sink->has_ended);
    assert_int_equal(sink->len, 150);
    assert_false(pipe_reader_is_paused(&sink->reader));
}

static void drain_takes_what_is_there_at_once(void **state)
{
    struct sink *sink = *state;

    assert_true(fcntl(sink->write_fd, F_SETPIPE_SZ, 1 << 20) >= 1 << 20);
    put(sink, 1 << 20);
    pipe_reader_drain(&sink->reader);
    assert_int_equal(sink->len, 1 << 20);
    pipe_reader_drain(&sink->reader);
    assert_false(sink->has_ended);
    put(sink, 5);
    hang_up(sink);
    pipe_reader_drain(&sink->reader);
    assert_int_equal(sink->len, (1 << 20) + 5);
    assert_true(sink->has_ended);
    pipe_reader_drain(&sink->reader);
    pipe_reader_drain_all(&sink->reader);
    pipe_reader_resume(&sink->reader);
}

static void drain_stops_at_a_full_sink_and_empty_does_not(void **state)
{
    struct sink *sink = *state;

    assert_true(fcntl(sink->write_fd, F_SETPIPE_SZ, 1 << 20) >= 1 << 20);
    put(sink, 1 << 20);
    sink->is_full = true;
    pipe_reader_drain(&sink->reader);
    assert_int_equal(sink->len, PIPE_READER_CHUNK);
    assert_true(pipe_reader_is_paused(&sink->reader));
    pipe_reader_drain_all(&sink->reader);
    assert_int_equal(sink->len, 1 << 20);
    assert_true(pipe_reader_is_paused(&sink->reader));
    hang_up(sink);
    pipe_reader_drain_all(&sink->reader);
    assert_true(sink->has_ended);
}

static void a_writer_that_never_stops_keeps_nobody(void **state)
{
    struct sink *sink = *state;
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        char bytes[4096] = { 0 };

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (write(sink->write_fd, bytes, sizeof(bytes)) > 0)
            ;
        _exit(0);
    }
    struct pollfd written = { .fd = sink->reader.fd, .events = POLLIN };
    assert_int_equal(poll(&written, 1, 60000), 1);
    pipe_reader_drain(&sink->reader);
    pipe_reader_drain_all(&sink->reader);
    assert_true(sink->len > 0 && sink->len <= 64ul * PIPE_READER_CHUNK);
    kill(pid, 9);
    waitpid(pid, &status, 0);
}

static void closing_twice_is_closing(void **state)
{
    struct sink *sink = *state;
    struct pipe_reader none = PIPE_READER_NONE;

    pipe_reader_close(&sink->reader);
    pipe_reader_close(&sink->reader);
    pipe_reader_close(&none);
    pipe_reader_resume(&none);
    assert_false(pipe_reader_is_paused(&none));
}

#define pipe_reader_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        pipe_reader_test(what_comes_is_handed_on),
        pipe_reader_test(a_full_sink_makes_it_pause),
        pipe_reader_test(drain_takes_what_is_there_at_once),
        pipe_reader_test(drain_stops_at_a_full_sink_and_empty_does_not),
        pipe_reader_test(a_writer_that_never_stops_keeps_nobody),
        pipe_reader_test(closing_twice_is_closing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
