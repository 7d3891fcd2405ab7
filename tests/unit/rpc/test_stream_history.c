#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rpc/stream_history.h"

static void what_the_client_ended_stays_ended(void **state)
{
    struct stream_history past = { 0 };
    (void) state;

    for (int32_t id = 1; id < 9; id += 2)
        assert_int_equal(stream_history_open(&past, id), STREAM_SOUND);
    stream_history_end(&past, 3);
    assert_int_equal(stream_history_open(&past, 1), STREAM_SOUND);
    assert_int_equal(stream_history_open(&past, 3), STREAM_ENDED);
    assert_int_equal(stream_history_open(&past, 3), STREAM_ENDED);
    assert_int_equal(stream_history_open(&past, 7), STREAM_SOUND);
}

static void ids_that_were_passed_over_are_known(void **state)
{
    struct stream_history past = { 0 };
    (void) state;

    assert_int_equal(stream_history_open(&past, 5), STREAM_SOUND);
    assert_int_equal(stream_history_open(&past, 3), STREAM_SKIPPED);
    assert_int_equal(stream_history_open(&past, 1), STREAM_SKIPPED);
    assert_int_equal(stream_history_open(&past, 11), STREAM_SOUND);
    assert_int_equal(stream_history_open(&past, 9), STREAM_SKIPPED);
    assert_int_equal(stream_history_open(&past, 5), STREAM_SOUND);
}

static void what_is_no_stream_of_a_client_is_not_judged(void **state)
{
    struct stream_history past = { 0 };
    (void) state;

    stream_history_open(&past, 9);
    assert_int_equal(stream_history_open(&past, 0), STREAM_SOUND);
    assert_int_equal(stream_history_open(&past, 4), STREAM_SOUND);
    stream_history_end(&past, 4);
    stream_history_end(&past, 11);
    assert_int_equal(stream_history_open(&past, 11), STREAM_SOUND);
}

static void the_far_past_is_forgotten(void **state)
{
    struct stream_history past = { 0 };
    (void) state;

    stream_history_open(&past, 1);
    stream_history_end(&past, 1);
    for (int32_t id = 3; id < 2 * STREAM_HISTORY_KEPT; id += 2)
        stream_history_open(&past, id);
    assert_int_equal(stream_history_open(&past, 1), STREAM_ENDED);
    assert_int_equal(stream_history_open(&past, 2 * STREAM_HISTORY_KEPT + 1), STREAM_SOUND);
    assert_int_equal(stream_history_open(&past, 1), STREAM_SOUND);
    /* Its place is another's now. */
    assert_int_equal(stream_history_open(&past, 2 * STREAM_HISTORY_KEPT + 1), STREAM_SOUND);
}

static void a_leap_to_the_last_id_is_taken(void **state)
{
    struct stream_history past = { 0 };
    (void) state;

    stream_history_open(&past, 1);
    stream_history_end(&past, 1);
    assert_int_equal(stream_history_open(&past, INT32_MAX), STREAM_SOUND);
    assert_int_equal(stream_history_open(&past, 1), STREAM_SOUND);
    assert_int_equal(stream_history_open(&past, INT32_MAX - 2), STREAM_SKIPPED);
    assert_int_equal(stream_history_open(&past, INT32_MAX), STREAM_SOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_client_ended_stays_ended),
        cmocka_unit_test(ids_that_were_passed_over_are_known),
        cmocka_unit_test(what_is_no_stream_of_a_client_is_not_judged),
        cmocka_unit_test(the_far_past_is_forgotten),
        cmocka_unit_test(a_leap_to_the_last_id_is_taken),
    };
    return cmocka_run_group_tests_name("stream_past", tests, NULL, NULL);
}
