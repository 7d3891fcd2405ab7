#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/coverage.h"
#include "base/mem.h"
#include "runtime/cgroup_members.h"

/* A list that reads otherwise the second time: a FIFO, in whose place a file comes before its reader is at the end. */
struct list {
    char path[64], next[64];
    const char *first;
    pthread_t writer;
};

static void put(int fd, const char *text)
{
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        abort();
}

static void *answer(void *cookie)
{
    const struct list *list = cookie;
    int fd = open(list->path, O_WRONLY | O_CLOEXEC);

    put(fd, list->first);
    if (rename(list->next, list->path) < 0)
        abort();
    close(fd);
    return NULL;
}

static bool kill_by(const char *first, const char *second)
{
    struct list list = { .first = first };
    char dir[] = "/tmp/af-members-XXXXXX";

    assert_non_null(mkdtemp(dir));
    snprintf(list.path, sizeof(list.path), "%s/cgroup.procs", dir);
    snprintf(list.next, sizeof(list.next), "%s/next", dir);
    assert_int_equal(mkfifo(list.path, 0600), 0);
    int fd = open(list.next, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    put(fd, second);
    close(fd);
    assert_int_equal(pthread_create(&list.writer, NULL, answer, &list), 0);
    bool any = cgroup_members_kill(list.path);
    pthread_join(list.writer, NULL);
    unlink(list.path);
    rmdir(dir);
    return any;
}

static pid_t somebody(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        pause();
        coverage_exit(0);
    }
    return pid;
}

/* By what it ends when it is asked to: by what came first, if it was killed before. */
static int end(pid_t pid)
{
    int status = 0;

    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void those_that_are_listed_are_killed(void **state)
{
    pid_t one = somebody(), other = somebody(), third = somebody();
    char text[64];

    (void) state;
    snprintf(text, sizeof(text), "%d\n0\n%d\n", one, other);
    assert_true(kill_by(text, text));
    assert_int_equal(end(one), SIGKILL);
    assert_int_equal(end(other), SIGKILL);
    assert_int_equal(end(third), SIGTERM);
}

/* It was a member's when the list was read, and is another's by now. */
static void a_number_that_was_given_out_again_is_spared(void **state)
{
    pid_t stranger = somebody(), member = somebody();
    char first[64], second[64];

    (void) state;
    snprintf(first, sizeof(first), "%d\n%d\n", stranger, member);
    snprintf(second, sizeof(second), "%d\n", member);
    assert_true(kill_by(first, second));
    assert_int_equal(end(member), SIGKILL);
    assert_int_equal(end(stranger), SIGTERM);
}

static void an_empty_one_is_over(void **state)
{
    (void) state;
    assert_false(kill_by("", ""));
    assert_false(cgroup_members_kill("/nonexistent/cgroup.procs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_are_listed_are_killed),
        cmocka_unit_test(a_number_that_was_given_out_again_is_spared),
        cmocka_unit_test(an_empty_one_is_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
