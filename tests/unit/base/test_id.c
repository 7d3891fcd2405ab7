#include "fixture.h"

#include <sys/time.h>

#include "base/id.h"

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void ids_are_valid_and_never_the_same(void **state)
{
    static char ids[5000][ID_TEXT_MAX];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        id_new("sb_", ids[i]);
        assert_int_equal(strlen(ids[i]), 19);
        assert_true(id_is_valid("sb_", ids[i]));
    }
    qsort(ids, ARRAY_LEN(ids), sizeof(ids[0]), by_text);
    for (size_t i = 1; i < ARRAY_LEN(ids); i++)
        assert_string_not_equal(ids[i - 1], ids[i]);
}

static void what_could_become_another_path_is_no_id(void **state)
{
    static const char *const bad[] = {
        "",
        "sb_",
        "sb_0123456789abcde",
        "sb_0123456789abcdef0",
        "sb_0123456789ABCDEF",
        "sb_0123456789abcdeg",
        "SB_0123456789abcdef",
        "cb_0123456789abcdef",
        "0123456789abcdef",
        " sb_0123456789abcdef",
        "sb_0123456789abcdef\n",
        "sb_0123456789abcd/f",
        "sb_../../../../etc/",
        "sb_sb_0123456789abcdef",
    };

    (void) state;
    assert_true(id_is_valid("sb_", "sb_0123456789abcdef"));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(id_is_valid("sb_", bad[i]));
}

static void on_alarm(int signal)
{
    (void) signal;
}

static void many_random_bytes_come_whole_though_signals_interrupt(void **state)
{
    const struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
    const struct sigaction action = { .sa_handler = on_alarm };
    size_t len = 4u << 20;
    unsigned char *bytes = xalloc(len);
    size_t zeroes = 0;

    (void) state;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    int r = id_random(bytes, len);
    setitimer(ITIMER_REAL, &never, NULL);
    assert_int_equal(r, 0);
    for (size_t i = len - 65536; i < len; i++)
        zeroes += bytes[i] == 0;
    free(bytes);
    assert_in_range(zeroes, 100, 500); /* 256 expected; a tail that was never filled has 65536 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_valid_and_never_the_same),
        cmocka_unit_test(what_could_become_another_path_is_no_id),
        cmocka_unit_test(many_random_bytes_come_whole_though_signals_interrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
