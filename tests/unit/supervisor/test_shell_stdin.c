#include "supervisor/shell_stdin.h"

#include "fixture.h"

#define LINES 64 /* more than a pipe has room for packets */

struct reader {
    struct reactor reactor;
    struct shell_stdin shell_stdin;
    int fd;
};

static int setup(void **state, bool packets)
{
    struct reader *reader = xnew(struct reader);

    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(reactor_init(&reader->reactor), 0);
    assert_int_equal(shell_stdin_open(&reader->shell_stdin, &reader->reactor, packets, &reader->fd), 0);
    assert_int_equal(fcntl(reader->fd, F_SETFL, O_NONBLOCK | (packets ? O_DIRECT : 0)), 0);
    *state = reader;
    return 0;
}

static int setup_packets(void **state)
{
    return setup(state, true);
}

static int setup_bytes(void **state)
{
    return setup(state, false);
}

static int teardown(void **state)
{
    struct reader *reader = *state;

    shell_stdin_close(&reader->shell_stdin);
    if (reader->fd >= 0)
        close(reader->fd);
    reactor_done(&reader->reactor);
    free(reader);
    return 0;
}

static void say_number(struct reader *reader, int i)
{
    char line[32];

    snprintf(line, sizeof(line), "line %d\n", i);
    assert_int_equal(shell_stdin_write_line(&reader->shell_stdin, line), 0);
}

/* All that comes, as it comes; false when nothing is there. */
static bool read_some(struct reader *reader, char *text, size_t size)
{
    ssize_t n = read(reader->fd, text, size - 1);

    text[n < 0 ? 0 : n] = '\0';
    return n > 0;
}

static void a_line_is_a_packet(void **state)
{
    struct reader *reader = *state;
    char text[256];

    say_number(reader, 1);
    say_number(reader, 2);
    assert_true(read_some(reader, text, sizeof(text)));
    assert_string_equal(text, "line 1\n");
    assert_true(read_some(reader, text, sizeof(text)));
    assert_string_equal(text, "line 2\n");
    assert_false(read_some(reader, text, sizeof(text)));
}

static void what_the_pipe_has_no_room_for_comes_later_in_its_order(void **state)
{
    struct reader *reader = *state;
    char text[256], expected[32];

    for (int i = 0; i < LINES; i++)
        say_number(reader, i);
    assert_true(reader->shell_stdin.unwritten.len > 0);
    for (int i = 0; i < LINES; i++) {
        turn_for(&reader->reactor, 1);
        snprintf(expected, sizeof(expected), "line %d\n", i);
        assert_true(read_some(reader, text, sizeof(text)));
        assert_string_equal(text, expected);
    }
    assert_false(read_some(reader, text, sizeof(text)));
    assert_null(reader->shell_stdin.watch.reactor);
}

static void bytes_that_do_not_fit_come_later_too(void **state)
{
    struct reader *reader = *state;
    char line[4096], text[65536];
    size_t said = 0, heard = 0;

    assert_int_equal(fcntl(reader->fd, F_SETPIPE_SZ, 4096), 4096);
    memset(line, 'x', sizeof(line));
    memcpy(line + 3000, "\n", 2);
    for (int i = 0; i < LINES; i++, said += strlen(line))
        assert_int_equal(shell_stdin_write_line(&reader->shell_stdin, line), 0);
    for (int i = 0; i < LINES; i++) {
        turn_for(&reader->reactor, 1);
        while (read_some(reader, text, sizeof(text)))
            heard += strlen(text);
    }
    assert_int_equal(heard, said);
}

static void it_knows_what_has_been_read(void **state)
{
    struct reader *reader = *state;
    char text[256];

    assert_true(shell_stdin_is_drained(&reader->shell_stdin));
    for (int i = 0; i < LINES; i++)
        say_number(reader, i);
    while (read_some(reader, text, sizeof(text)))
        assert_false(shell_stdin_is_drained(&reader->shell_stdin)); /* the pipe may be empty, but not all is in it yet */
    do {
        turn_for(&reader->reactor, 1);
    } while (read_some(reader, text, sizeof(text)));
    assert_true(shell_stdin_is_drained(&reader->shell_stdin));
}

static void a_reader_that_has_gone_is_told_once(void **state)
{
    struct reader *reader = *state;

    for (int i = 0; i < LINES; i++)
        say_number(reader, i);
    close(reader->fd);
    reader->fd = -1;
    turn_for(&reader->reactor, 20);
    assert_null(reader->shell_stdin.watch.reactor);
    assert_int_equal(shell_stdin_write_line(&reader->shell_stdin, "x\n"), -EPIPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_is_a_packet, setup_packets, teardown),
        cmocka_unit_test_setup_teardown(what_the_pipe_has_no_room_for_comes_later_in_its_order, setup_packets, teardown),
        cmocka_unit_test_setup_teardown(bytes_that_do_not_fit_come_later_too, setup_bytes, teardown),
        cmocka_unit_test_setup_teardown(it_knows_what_has_been_read, setup_packets, teardown),
        cmocka_unit_test_setup_teardown(a_reader_that_has_gone_is_told_once, setup_packets, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
