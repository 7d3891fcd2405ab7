#include "runtime_fixture.h"

#include <sys/socket.h>

#include "runtime/docker_report.h"

static int open_pair(void **state)
{
    static int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *state = pair;
    return 0;
}

static int close_pair(void **state)
{
    int *pair = *state;

    close(pair[0]);
    close(pair[1]);
    return 0;
}

static void reports_arrive_one_by_one(void **state)
{
    int *pair = *state;
    struct docker_report report;

    assert_int_equal(docker_report_receive(pair[0], &report), 0);
    assert_int_equal(docker_report_send(pair[1], DOCKER_REPORT_STARTED, 4711, ""), 0);
    assert_int_equal(docker_report_send(pair[1], DOCKER_REPORT_FAILED, 9, "two words"), 0);
    assert_int_equal(docker_report_receive(pair[0], &report), 1);
    assert_true(report.kind == DOCKER_REPORT_STARTED && report.number == 4711 && report.text[0] == '\0');
    assert_int_equal(docker_report_receive(pair[0], &report), 1);
    assert_true(report.kind == DOCKER_REPORT_FAILED && report.number == 9);
    assert_string_equal(report.text, "two words");
    assert_int_equal(docker_report_receive(pair[0], &report), 0);
}

static void a_long_text_is_cut_and_a_full_socket_is_not_waited_for(void **state)
{
    int *pair = *state, r = 0;
    char text[4000];
    struct docker_report report;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < 100000 && r == 0; i++)
        r = docker_report_send(pair[1], DOCKER_REPORT_PROGRESS, 0, text);
    assert_int_equal(r, -EAGAIN);
    assert_int_equal(docker_report_receive(pair[0], &report), 1);
    assert_int_equal(strlen(report.text), DOCKER_REPORT_TEXT_MAX - 1);
}

static void what_is_no_report_is_refused(void **state)
{
    static const char *const packets[] = { "x",           "failed",    "failed 7", "failed x y",
                                           "failed -1 y", "other 1 x", " 1 x",     "failed 99999999999999999999999 x" };
    int *pair = *state;
    char large[5000];
    struct docker_report report;

    for (size_t i = 0; i < ARRAY_LEN(packets); i++) {
        assert_true(send(pair[1], packets[i], strlen(packets[i]), 0) > 0);
        assert_int_equal(docker_report_receive(pair[0], &report), -EPROTO);
    }
    assert_true(send(pair[1], "failed 1 a\0b", 12, 0) > 0);
    assert_int_equal(docker_report_receive(pair[0], &report), -EPROTO);
    memset(large, 'x', sizeof(large));
    memcpy(large, "failed 1 ", 9);
    assert_true(send(pair[1], large, sizeof(large), 0) > 0);
    assert_int_equal(docker_report_receive(pair[0], &report), -EPROTO);
    shutdown(pair[1], SHUT_WR);
    assert_int_equal(docker_report_receive(pair[0], &report), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reports_arrive_one_by_one, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(a_long_text_is_cut_and_a_full_socket_is_not_waited_for, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(what_is_no_report_is_refused, open_pair, close_pair),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
