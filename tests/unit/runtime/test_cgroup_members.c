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

#include "base/covered.h"
#include "base/mem.h"
#include "runtime/cgroup_members.h"

/* A list that reads otherwise each time: a FIFO, and who writes one answer after the other. */
struct list {
    char path[64];
    const char *answers[4];
    pthread_t writer;
};

static void *answer(void *cookie)
{
    const struct list *list = cookie;

    for (size_t i = 0; i < ARRAY_LEN(list->answers) && list->answers[i]; i++) {
        int fd = open(list->path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, list->answers[i], strlen(list->answers[i])) < 0)
            abort();
        close(fd);
        usleep(20000); /* so that the next reader does not meet this one */
    }
    return NULL;
}

static bool kill_by(const char *first, const char *second)
{
    struct list list = { .answers = { first, second } };
    char dir[] = "/tmp/af-members-XXXXXX";

    assert_non_null(mkdtemp(dir));
    snprintf(list.path, sizeof(list.path), "%s/cgroup.procs", dir);
    assert_int_equal(mkfifo(list.path, 0600), 0);
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
        covered_exit(0);
    }
    return pid;
}

static bool lives(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == 0;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void those_that_are_listed_are_killed(void **state)
{
    pid_t one = somebody(), other = somebody(), third = somebody();
    char text[64];
    int status;

    (void) state;
    snprintf(text, sizeof(text), "%d\n0\n%d\n", one, other);
    assert_true(kill_by(text, text));
    assert_int_equal(waitpid(one, &status, 0), one);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_true(lives(third));
    end(third);
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
    assert_int_equal(waitpid(member, NULL, 0), member);
    usleep(50000);
    assert_true(lives(stranger));
    end(stranger);
}

static void an_empty_one_is_over(void **state)
{
    (void) state;
    assert_false(kill_by("", NULL));
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
