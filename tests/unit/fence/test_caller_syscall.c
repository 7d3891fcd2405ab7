#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "fence/caller_syscall.h"

#define TRIALS 30

/* A thread that is awake for a while, then waits in read(2). */
struct other {
    pthread_t pthread;
    sem_t is_there;
    int64_t awake_ns;
    atomic_bool may_sleep, is_awake;
    pid_t number;
    int fds[2];
};

static void *be_there(void *arg)
{
    struct other *o = arg;
    char byte;

    o->number = gettid();
    int64_t until = clock_now_ns() + o->awake_ns;
    atomic_store(&o->is_awake, true);
    sem_post(&o->is_there);
    while (clock_now_ns() < until && !atomic_load(&o->may_sleep))
        ;
    atomic_store(&o->is_awake, false);
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

/* Reads the file that caller_syscall_get() reads, but waits longer. */
static void await_sleep(const struct other *o)
{
    int64_t deadline_ns = clock_now_ns() + 60 * CLOCK_NS_PER_SEC;
    char path[48], text[256] = "", reads[16];

    snprintf(reads, sizeof(reads), "%ld ", (long) SYS_read);
    snprintf(path, sizeof(path), "/proc/%d/syscall", (int) o->number);
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    do {
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
        assert_true(n > 0);
        text[n] = '\0';
    } while (strncmp(text, reads, strlen(reads)) != 0 && clock_now_ns() < deadline_ns && usleep(1000) == 0);
}

static void who_sleeps_is_seen(void **state)
{
    struct other o;
    struct caller_syscall call = { 0 };

    (void) state;
    begin(&o, 0);
    await_sleep(&o);
    assert_true(caller_syscall_get(o.number, &call));
    assert_int_equal(call.number, SYS_read);
    assert_int_equal(call.args[0], o.fds[0]);
    assert_int_equal(call.args[2], 1);
    end(&o);
}

/* On a busy machine a thread may not sleep in time, or sleep before caller_syscall_get() looks: then the test tries again. */
static void who_is_about_to_sleep_is_waited_for(void **state)
{
    bool was_seen = false;

    (void) state;
    for (int i = 0; i < TRIALS && !was_seen; i++) {
        struct caller_syscall call = { 0 };
        struct other o;

        begin(&o, 2 * CLOCK_NS_PER_MS);
        bool was_awake = atomic_load(&o.is_awake);
        was_seen = caller_syscall_get(o.number, &call) && was_awake;
        if (was_seen)
            assert_int_equal(call.number, SYS_read);
        end(&o);
    }
    assert_true(was_seen);
}

static void who_never_sleeps_is_not_waited_for_long(void **state)
{
    struct other o;
    struct caller_syscall call;

    (void) state;
    begin(&o, 3600 * CLOCK_NS_PER_SEC);
    assert_false(caller_syscall_get(o.number, &call));
    end(&o);
}

static void who_is_gone_is_not_seen(void **state)
{
    struct other o;
    struct caller_syscall call;

    (void) state;
    begin(&o, 0);
    end(&o);
    assert_false(caller_syscall_get(o.number, &call));
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
