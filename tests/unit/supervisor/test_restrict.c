#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sanitized.h"
#include "supervisor/restrict.h"

/* Which of the things given up are still possible, as bits: 0 when all are refused. */
static int try_all(void)
{
    char name[] = "true", *argv[] = { name, NULL };
    int possible = 0;

    execve("/bin/true", argv, argv + 1);
    possible |= errno == EPERM ? 0 : 1;
    possible |= mount("none", "/", NULL, MS_REMOUNT | MS_BIND, NULL) < 0 && errno == EPERM ? 0 : 2;
    possible |= unshare(CLONE_NEWNS) < 0 && errno == EPERM ? 0 : 4;
#ifndef SANITIZED_ADDRESS
    possible |= ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 && errno == EPERM ? 0 : 8;
#endif
    possible |= socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM ? 0 : 16;
    possible |= setuid(getuid()) < 0 && errno == EPERM ? 0 : 32;
    return possible;
}

static int go, in_thread = -1;

static void *wait_and_try(void *arg)
{
    (void) arg;
    while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
        sched_yield();
    in_thread = try_all();
    return NULL;
}

/* In a child: there is no way back. */
static int status_of(int (*fn)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fn());
    assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int restricted(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, wait_and_try, NULL) != 0 || restrict_all_threads() < 0)
        return 128;
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    return try_all() | in_thread;
}

static int works_on(void)
{
    int pair[2];

    if (restrict_all_threads() < 0)
        return 1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0 || socket(AF_UNIX, SOCK_STREAM, 0) < 0)
        return 2;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return waitpid(pid, NULL, 0) == pid ? 0 : 3;
}

static void every_thread_gives_up_what_a_running_sandbox_does_not_need(void **state)
{
    (void) state;
    assert_int_equal(status_of(restricted), 0);
}

static void what_it_needs_goes_on_working(void **state)
{
    (void) state;
    assert_int_equal(status_of(works_on), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_gives_up_what_a_running_sandbox_does_not_need),
        cmocka_unit_test(what_it_needs_goes_on_working),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
