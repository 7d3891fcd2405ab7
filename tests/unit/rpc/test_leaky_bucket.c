#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/leaky_bucket.h"

#define MS CLOCK_NS_PER_MS

static void a_burst_is_taken_and_no_more(void **state)
{
    struct leaky_bucket bucket = { 0 };
    (void) state;

    for (int i = 0; i < 100; i++)
        assert_false(leaky_bucket_add(&bucket, 5 * MS, 10, 100));
    assert_true(leaky_bucket_add(&bucket, 5 * MS, 10, 100));
}

static void what_comes_slowly_is_never_too_much(void **state)
{
    struct leaky_bucket bucket = { 0 };
    (void) state;

    for (int64_t i = 0; i < 10000; i++)
        assert_false(leaky_bucket_add(&bucket, i * 100 * MS, 10, 5));
}

/* Steps too short for one to run out must not be lost: they add up. */
static void time_runs_in_the_shortest_steps(void **state)
{
    struct leaky_bucket bucket = { 0 };
    int64_t taken = 0;
    (void) state;

    for (int64_t ms = 0; ms < 10000; ms++)
        taken += !leaky_bucket_add(&bucket, ms * MS, 50, 100);
    /* All are counted, also those that were too many, so it overflows and stays so. */
    assert_in_range(taken, 100, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_is_taken_and_no_more),
        cmocka_unit_test(what_comes_slowly_is_never_too_much),
        cmocka_unit_test(time_runs_in_the_shortest_steps),
    };
    return cmocka_run_group_tests_name("flood", tests, NULL, NULL);
}
