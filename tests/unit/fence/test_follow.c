#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fence/follow.h"

static char text[] = "answer";
static const struct iovec iov = { text, sizeof(text) };

/* Where the process may not return from SCHED_IDLE there is nothing to try. */
static void begin(struct follow *follow, struct pursuit *p, int fds[2])
{
    *follow = (struct follow){ 0 };
    follow_init(follow);
    if (!follow->is_possible)
        skip();
    *p = (struct pursuit){ .thread = (int) gettid(), .pid = 1, .run = 100, .last_ns = clock_now_ns() };
    assert_int_equal(pipe(fds), 0);
}

static void end(int fds[2])
{
    close(fds[0]);
    close(fds[1]);
}

static void whoever_stood_back_is_as_before(void **state)
{
    struct follow follow;
    struct pursuit p;
    char bytes[sizeof(text)];
    int fds[2];

    (void) state;
    begin(&follow, &p, fds);
    assert_int_equal(follow_writev(&follow, &p, fds[1], &iov, 1), sizeof(text));
    assert_int_equal(read(fds[0], bytes, sizeof(bytes)), sizeof(bytes));
    assert_string_equal(bytes, text);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    assert_int_equal(follow.aside, 0);
    end(fds);
}

static void only_one_stands_back(void **state)
{
    struct follow follow;
    struct pursuit p;
    int fds[2];

    (void) state;
    begin(&follow, &p, fds);
    atomic_store(&follow.aside, 1 << 30);
    assert_int_equal(follow_writev(&follow, &p, fds[1], &iov, 1), sizeof(text));
    assert_int_equal(follow.aside, 1 << 30);
    end(fds);
}

static void rescue_gives_the_rights_back(void **state)
{
    static const struct sched_param param = { 0 };
    struct follow follow;
    struct pursuit p;
    int fds[2];

    (void) state;
    begin(&follow, &p, fds);
    assert_int_equal(sched_setscheduler(0, SCHED_IDLE, &param), 0);
    atomic_store(&follow.aside, p.thread);
    follow_rescue(&follow);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    assert_int_equal(follow.aside, 0);
    end(fds);
}

static void moving_to_a_client_binds_nobody(void **state)
{
    struct follow follow;
    struct pursuit p;
    cpu_set_t before, after;
    int fds[2];

    (void) state;
    begin(&follow, &p, fds);
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    for (int i = 0; i < 100; i++)
        follow_request(&follow, &p, (uint32_t) getpid(), false, clock_now_ns());
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_memory_equal(&before, &after, sizeof(before));
    end(fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_stood_back_is_as_before),
        cmocka_unit_test(only_one_stands_back),
        cmocka_unit_test(rescue_gives_the_rights_back),
        cmocka_unit_test(moving_to_a_client_binds_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
