#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "call/pool.h"

static atomic_int ran;
static pthread_barrier_t together;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void count(void *arg)
{
    atomic_fetch_add(&ran, *(int *) arg);
}

static void meet(void *arg)
{
    (void) arg;
    pthread_barrier_wait(&together);
    atomic_fetch_add(&ran, 1);
}

static void pass_gate(void *arg)
{
    (void) arg;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    atomic_fetch_add(&ran, 1);
}

static void test_everything_submitted_is_run_once(void **state)
{
    struct pool *pool = NULL;
    int one = 1;
    (void) state;

    atomic_store(&ran, 0);
    assert_int_equal(pool_new(4, 100000, &pool, NULL), 0);
    for (int i = 0; i < 20000; i++)
        assert_int_equal(pool_submit(pool, POOL_BRIEF, count, &one), 0);
    pool_free(pool);
    assert_int_equal(atomic_load(&ran), 20000);
}

/* Jobs that wait for one another would wait for ever, were one of them put behind another although there is a thread to be had. */
static void test_as_many_as_allowed_run_at_once(void **state)
{
    struct pool *pool = NULL;
    (void) state;

    atomic_store(&ran, 0);
    assert_int_equal(pool_new(64, 0, &pool, NULL), 0);
    for (int round = 0; round < 20; round++) {
        pthread_barrier_init(&together, NULL, 64);
        for (int i = 0; i < 64; i++)
            assert_int_equal(pool_submit(pool, POOL_BRIEF, meet, NULL), 0);
        while (atomic_load(&ran) < 64 * (round + 1))
            sched_yield();
        pthread_barrier_destroy(&together);
    }
    pool_free(pool);
}

static void test_a_full_line_refuses_and_loses_nothing(void **state)
{
    struct pool *pool = NULL;
    struct pool_stats stats;
    int taken = 0;
    (void) state;

    atomic_store(&ran, 0);
    assert_int_equal(pool_new(2, 3, &pool, NULL), 0);
    pthread_mutex_lock(&gate);
    while (pool_submit(pool, POOL_BRIEF, pass_gate, NULL) == 0) {
        taken++;
        assert_in_range(taken, 1, 5); /* two at work and three in line */
        do {
            /* Those at work must have left the line before it is counted. */
            sched_yield();
            pool_stats(pool, &stats);
        } while (taken <= 2 && stats.waiting > 0);
    }
    assert_int_equal(taken, 5);
    assert_int_equal(pool_submit(pool, POOL_BRIEF, pass_gate, NULL), -EAGAIN);
    pthread_mutex_unlock(&gate);
    pool_free(pool);
    assert_int_equal(atomic_load(&ran), 5);
}

/* Those that last are many, and still somebody is there for the others; none of them is lost. */
static void test_what_lasts_does_not_stop_what_is_brief(void **state)
{
    struct pool *pool = NULL;
    struct pool_stats stats;
    int thousand = 1000;
    (void) state;

    atomic_store(&ran, 0);
    assert_int_equal(pool_new(8, 50, &pool, NULL), 0);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 7; i++)
        assert_int_equal(pool_submit(pool, POOL_LASTING, pass_gate, NULL), 0);
    do {
        sched_yield();
        pool_stats(pool, &stats);
    } while (stats.waiting > 0);
    for (int i = 0; i < 50; i++)
        assert_int_equal(pool_submit(pool, POOL_LASTING, pass_gate, NULL), 0);
    assert_int_equal(pool_submit(pool, POOL_LASTING, pass_gate, NULL), -EAGAIN);
    for (int i = 0; i < 20; i++) {
        int before = atomic_load(&ran);
        assert_int_equal(pool_submit(pool, POOL_BRIEF, count, &thousand), 0);
        while (atomic_load(&ran) == before)
            sched_yield();
    }
    assert_int_equal(atomic_load(&ran), 20000);
    pthread_mutex_unlock(&gate);
    pool_free(pool);
    assert_int_equal(atomic_load(&ran), 20057);
}

static void test_a_single_thread_serves_both(void **state)
{
    struct pool *pool = NULL;
    int one = 1;
    (void) state;

    atomic_store(&ran, 0);
    assert_int_equal(pool_new(1, 0, &pool, NULL), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(pool_submit(pool, i % 2 ? POOL_LASTING : POOL_BRIEF, count, &one), 0);
    pool_free(pool);
    assert_int_equal(atomic_load(&ran), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_submitted_is_run_once),
        cmocka_unit_test(test_as_many_as_allowed_run_at_once),
        cmocka_unit_test(test_a_full_line_refuses_and_loses_nothing),
        cmocka_unit_test(test_what_lasts_does_not_stop_what_is_brief),
        cmocka_unit_test(test_a_single_thread_serves_both),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
