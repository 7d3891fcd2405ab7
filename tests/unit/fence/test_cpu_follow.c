#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "fence/cpu_follow.h"

#define CLIENT 1

/* Skips the test if the process may not leave SCHED_IDLE. The machine counts as idle, so no test depends on what else runs on
 * it. */
static void begin(struct cpu_follow *cpu_follow, struct client_affinity *p)
{
    *cpu_follow = (struct cpu_follow){ 0 };
    cpu_follow_init(cpu_follow);
    if (!cpu_follow->is_possible)
        skip();
    cpu_follow->measure_after_ns = INT64_MAX;
    *p = (struct client_affinity){ .thread = (int) gettid() };
}

/* Sends requests of one client, each soon after the other. Returns the time of the last one. */
static int64_t send_requests(struct cpu_follow *cpu_follow, struct client_affinity *p, int64_t now_ns, int count)
{
    for (int i = 0; i < count; i++)
        cpu_follow_request(cpu_follow, p, CLIENT, true, now_ns += 50000);
    return now_ns;
}

static void a_worker_yields_to_a_client_that_sends_request_after_request(void **state)
{
    struct cpu_follow cpu_follow;
    struct client_affinity p;

    (void) state;
    begin(&cpu_follow, &p);
    send_requests(&cpu_follow, &p, clock_now_ns(), 3);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    send_requests(&cpu_follow, &p, p.last_ns, 3);
    assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
    assert_true(cpu_follow_is_yielding(&cpu_follow, &p));
    cpu_follow_end(&cpu_follow, &p);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    assert_false(cpu_follow_is_yielding(&cpu_follow, &p));
}

static void it_stops_when_another_client_sends_a_request(void **state)
{
    struct cpu_follow cpu_follow;
    struct client_affinity p;
    int64_t now;

    (void) state;
    begin(&cpu_follow, &p);
    now = send_requests(&cpu_follow, &p, clock_now_ns(), 10);
    assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
    cpu_follow_request(&cpu_follow, &p, CLIENT + 1, true, now + 1);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void it_stops_when_the_client_pauses(void **state)
{
    struct cpu_follow cpu_follow;
    struct client_affinity p;
    int64_t now;

    (void) state;
    begin(&cpu_follow, &p);
    now = send_requests(&cpu_follow, &p, clock_now_ns(), 10);
    cpu_follow_request(&cpu_follow, &p, CLIENT, true, now + 2 * CLOCK_NS_PER_MS);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void no_worker_yields_on_a_busy_machine(void **state)
{
    struct cpu_follow cpu_follow;
    struct client_affinity p;
    int64_t now;

    (void) state;
    begin(&cpu_follow, &p);
    now = send_requests(&cpu_follow, &p, clock_now_ns(), 10);
    assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
    assert_false(cpu_follow_is_overloaded(&cpu_follow, now));
    cpu_follow.running = cpu_follow.cpus;
    assert_true(cpu_follow_is_overloaded(&cpu_follow, now));
    send_requests(&cpu_follow, &p, now, 1);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void only_one_worker_yields(void **state)
{
    struct cpu_follow cpu_follow;
    struct client_affinity p;

    (void) state;
    begin(&cpu_follow, &p);
    atomic_store(&cpu_follow.yielding_thread, 1 << 30);
    send_requests(&cpu_follow, &p, clock_now_ns(), 10);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    assert_int_equal(cpu_follow.yielding_thread, 1 << 30);
}

/* It does not yield again at once, and waits longer each time. */
static void a_restored_worker_has_its_policy_back_for_a_while(void **state)
{
    struct cpu_follow cpu_follow;
    struct client_affinity p;
    int64_t now, first;

    (void) state;
    begin(&cpu_follow, &p);
    now = send_requests(&cpu_follow, &p, clock_now_ns(), 10);
    cpu_follow_restore(&cpu_follow, now);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    send_requests(&cpu_follow, &p, now, 10);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    first = cpu_follow.backoff_until_ns - now;
    now = send_requests(&cpu_follow, &p, cpu_follow.backoff_until_ns, 10);
    assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
    cpu_follow_restore(&cpu_follow, now);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    assert_true(cpu_follow.backoff_until_ns - now > first);
}

static void restoring_without_a_yielding_worker_does_nothing(void **state)
{
    struct cpu_follow cpu_follow = { 0 };

    (void) state;
    cpu_follow_restore(&cpu_follow, clock_now_ns());
    assert_int_equal(cpu_follow.backoff_until_ns, 0);
}

static void moving_to_a_client_does_not_bind_the_worker(void **state)
{
    struct cpu_follow cpu_follow;
    struct client_affinity p;
    cpu_set_t before, after;
    int64_t now = clock_now_ns();

    (void) state;
    begin(&cpu_follow, &p);
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    for (int i = 0; i < 100; i++)
        cpu_follow_request(&cpu_follow, &p, (uint32_t) getpid(), false, now += 50000);
    cpu_follow_end(&cpu_follow, &p);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_memory_equal(&before, &after, sizeof(before));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_yields_to_a_client_that_sends_request_after_request),
        cmocka_unit_test(it_stops_when_another_client_sends_a_request),
        cmocka_unit_test(it_stops_when_the_client_pauses),
        cmocka_unit_test(no_worker_yields_on_a_busy_machine),
        cmocka_unit_test(only_one_worker_yields),
        cmocka_unit_test(a_restored_worker_has_its_policy_back_for_a_while),
        cmocka_unit_test(restoring_without_a_yielding_worker_does_nothing),
        cmocka_unit_test(moving_to_a_client_does_not_bind_the_worker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
