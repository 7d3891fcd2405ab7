#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "fence/peek.h"

/* A thread that is awake for a while, then waits in read(2). */
struct other {
    pthread_t pthread;
    sem_t is_there;
    int64_t awake_ns;
    atomic_bool may_sleep;
    pid_t number;
    int fds[2];
};

static void *be_there(void *arg)
{
    struct other *o = arg;
    char byte;

    o->number = gettid();
    sem_post(&o->is_there);
    int64_t until = clock_now_ns() + o->awake_ns;
    while (clock_now_ns() < until && !atomic_load(&o->may_sleep))
        ;
    return read(o->fds[0], &byte, 1) == 1 ? o : NULL;
}

static void begin(struct other *o, int64_t awake_ns)
{
    *o = (struct other){ .awake_ns = awake_ns };
    sem_init(&o->is_there, 0, 0);
    assert_int_equal(pipe(o->fds), 0);
    assert_int_equal(pthread_create(&o->pthread, NULL, be_there, o), 0);
    while (sem_wait(&o->is_there) < 0)
        ;
}

static void end(struct other *o)
{
    atomic_store(&o->may_sleep, true);
    assert_int_equal(write(o->fds[1], "x", 1), 1);
    pthread_join(o->pthread, NULL);
    sem_destroy(&o->is_there);
    close(o->fds[0]);
    close(o->fds[1]);
}

static void who_sleeps_is_seen(void **state)
{
    struct other o;
    struct peeked call = { 0 };

    (void) state;
    begin(&o, 0);
    assert_true(peek_at(o.number, &call));
    assert_int_equal(call.number, SYS_read);
    assert_int_equal(call.args[0], o.fds[0]);
    assert_int_equal(call.args[2], 1);
    end(&o);
}

static void who_is_about_to_sleep_is_waited_for(void **state)
{
    struct other o;
    struct peeked call = { 0 };

    (void) state;
    begin(&o, 2 * CLOCK_NS_PER_MS);
    assert_true(peek_at(o.number, &call));
    assert_int_equal(call.number, SYS_read);
    end(&o);
}

static void who_never_sleeps_is_not_waited_for_long(void **state)
{
    struct other o;
    struct peeked call;

    (void) state;
    begin(&o, 3600 * CLOCK_NS_PER_SEC);
    assert_false(peek_at(o.number, &call));
    end(&o);
}

static void who_is_gone_is_not_seen(void **state)
{
    struct other o;
    struct peeked call;

    (void) state;
    begin(&o, 0);
    end(&o);
    assert_false(peek_at(o.number, &call));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_sleeps_is_seen),
        cmocka_unit_test(who_is_about_to_sleep_is_waited_for),
        cmocka_unit_test(who_never_sleeps_is_not_waited_for_long),
        cmocka_unit_test(who_is_gone_is_not_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
