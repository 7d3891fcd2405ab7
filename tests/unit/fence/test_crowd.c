#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fence/crowd.h"

#define NOW CLOCK_NS_PER_SEC

/* A thread beside the first one of this process, with a policy of its own. */
struct other {
    pthread_t pthread;
    sem_t is_there, may_go;
    int policy;
    uint32_t number;
};

static void *be_there(void *arg)
{
    static const struct sched_param param = { 0 };
    struct other *o = arg;

    sched_setscheduler(0, o->policy, &param);
    o->number = (uint32_t) gettid();
    sem_post(&o->is_there);
    while (sem_wait(&o->may_go) < 0)
        ;
    return NULL;
}

static void begin(struct other *o, int policy)
{
    *o = (struct other){ .policy = policy };
    sem_init(&o->is_there, 0, 0);
    sem_init(&o->may_go, 0, 0);
    assert_int_equal(pthread_create(&o->pthread, NULL, be_there, o), 0);
    while (sem_wait(&o->is_there) < 0)
        ;
}

static void end(struct other *o)
{
    sem_post(&o->may_go);
    pthread_join(o->pthread, NULL);
    sem_destroy(&o->is_there);
    sem_destroy(&o->may_go);
}

static int policy_of(const struct other *o)
{
    return sched_getscheduler((pid_t) o->number);
}

static void threads_wait_for_each_other_as_long_as_the_crowd_lasts(void **state)
{
    struct crowd crowd = { 0 };
    struct other a, b;

    (void) state;
    begin(&a, SCHED_OTHER);
    begin(&b, SCHED_OTHER);
    crowd_join(&crowd, a.number, NOW);
    crowd_join(&crowd, b.number, NOW + CROWD_QUIET_NS - 1);
    assert_int_equal(policy_of(&a), SCHED_BATCH);
    assert_int_equal(policy_of(&b), SCHED_BATCH);
    crowd_disperse(&crowd, NOW + CROWD_QUIET_NS);
    assert_int_equal(policy_of(&a), SCHED_BATCH);
    crowd_disperse(&crowd, NOW + 2 * CROWD_QUIET_NS);
    assert_int_equal(policy_of(&a), SCHED_OTHER);
    assert_int_equal(policy_of(&b), SCHED_OTHER);
    end(&a);
    end(&b);
}

static void who_joins_again_is_kept_again(void **state)
{
    struct crowd crowd = { 0 };
    struct other a;

    (void) state;
    begin(&a, SCHED_OTHER);
    for (int i = 1; i <= 3; i++) {
        int64_t now = i * NOW;
        crowd_join(&crowd, a.number, now);
        crowd_join(&crowd, a.number, now + 1);
        assert_int_equal(policy_of(&a), SCHED_BATCH);
        crowd_disperse(&crowd, now + 1 + CROWD_QUIET_NS);
        assert_int_equal(policy_of(&a), SCHED_OTHER);
    }
    end(&a);
}

/* What it starts would inherit it: the first thread of a process is the one that starts others. */
static void the_first_thread_of_a_process_is_left_alone(void **state)
{
    struct crowd crowd = { 0 };

    (void) state;
    crowd_join(&crowd, (uint32_t) getpid(), NOW);
    assert_int_equal(sched_getscheduler(getpid()), SCHED_OTHER);
}

static void a_policy_that_somebody_chose_stays(void **state)
{
    static const int chosen[] = { SCHED_BATCH, SCHED_IDLE };
    struct crowd crowd = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof(chosen) / sizeof(*chosen); i++) {
        struct other a;
        begin(&a, chosen[i]);
        crowd_join(&crowd, a.number, NOW);
        assert_int_equal(policy_of(&a), chosen[i]);
        crowd_disperse(&crowd, NOW + CROWD_QUIET_NS);
        assert_int_equal(policy_of(&a), chosen[i]);
        end(&a);
    }
}

/* 0 would mean the calling thread to the scheduler. */
static void nobody_is_nobody(void **state)
{
    struct crowd crowd = { 0 };

    (void) state;
    crowd_join(&crowd, 0, NOW);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

/* Whoever finds its place taken stays as it is, and who has it is given back what it had. */
static void two_of_one_place_are_not_mixed_up(void **state)
{
    struct crowd crowd = { 0 };
    struct other a, b;

    (void) state;
    begin(&a, SCHED_OTHER);
    begin(&b, SCHED_OTHER);
    crowd_join(&crowd, a.number, NOW);
    crowd.members[b.number % CROWD_MOST] = crowd.members[a.number % CROWD_MOST];
    if (a.number % CROWD_MOST != b.number % CROWD_MOST)
        crowd.members[a.number % CROWD_MOST] = 0;
    crowd_join(&crowd, b.number, NOW);
    assert_int_equal(policy_of(&b), SCHED_OTHER);
    crowd_disperse(&crowd, NOW + CROWD_QUIET_NS);
    assert_int_equal(policy_of(&a), SCHED_OTHER);
    end(&a);
    end(&b);
}

static void a_thread_that_is_gone_is_no_trouble(void **state)
{
    struct crowd crowd = { 0 };
    struct other a;

    (void) state;
    begin(&a, SCHED_OTHER);
    crowd_join(&crowd, a.number, NOW);
    end(&a);
    crowd_disperse(&crowd, NOW + CROWD_QUIET_NS);
    begin(&a, SCHED_OTHER);
    crowd_join(&crowd, a.number, 2 * NOW);
    assert_int_equal(policy_of(&a), SCHED_BATCH);
    end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_wait_for_each_other_as_long_as_the_crowd_lasts),
        cmocka_unit_test(who_joins_again_is_kept_again),
        cmocka_unit_test(the_first_thread_of_a_process_is_left_alone),
        cmocka_unit_test(a_policy_that_somebody_chose_stays),
        cmocka_unit_test(nobody_is_nobody),
        cmocka_unit_test(two_of_one_place_are_not_mixed_up),
        cmocka_unit_test(a_thread_that_is_gone_is_no_trouble),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
