#include "supervisor/exec_of_pid.h"

#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"

static int keys[8];

static const char *name_of(struct exec_of_pid *exec_of_pid, pid_t pid)
{
    static char out[CTL_NAME_MAX];

    exec_of_pid_find(exec_of_pid, pid, out);
    return out;
}

static void nobody_runs(void **state)
{
    struct exec_of_pid exec_of_pid = EXEC_OF_PID_EMPTY;

    (void) state;
    assert_string_equal(name_of(&exec_of_pid, 0), "");
    assert_string_equal(name_of(&exec_of_pid, getpid()), "");
    exec_of_pid_remove(&exec_of_pid, &keys[0]);
    exec_of_pid_done(&exec_of_pid);
}

static void the_only_one_it_is(void **state)
{
    struct exec_of_pid exec_of_pid = EXEC_OF_PID_EMPTY;

    (void) state;
    exec_of_pid_set(&exec_of_pid, &keys[0], 0, "one");
    assert_string_equal(name_of(&exec_of_pid, getpid()), "one");
    assert_string_equal(name_of(&exec_of_pid, 0), "one");
    exec_of_pid_remove(&exec_of_pid, &keys[0]);
    assert_string_equal(name_of(&exec_of_pid, 0), "");
    exec_of_pid_done(&exec_of_pid);
}

/* A child that leads a session, as every command does. */
static pid_t start_leader(int *ret_fd)
{
    int pair[2];
    char c;

    assert_int_equal(pipe(pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        close(pair[1]);
        _exit(read(pair[0], &c, 1) < 0);
    }
    close(pair[0]);
    while (getsid(pid) != pid)
        usleep(1000);
    *ret_fd = pair[1];
    return pid;
}

static void of_several_the_one_whose_session_it_is(void **state)
{
    struct exec_of_pid exec_of_pid = EXEC_OF_PID_EMPTY;
    int fd, status;
    pid_t leader = start_leader(&fd);

    (void) state;
    exec_of_pid_set(&exec_of_pid, &keys[0], (uint32_t) leader, "leader");
    exec_of_pid_set(&exec_of_pid, &keys[1], 999999999, "other");
    assert_string_equal(name_of(&exec_of_pid, leader), "leader");
    /* A session that nobody has, a process that is gone, no process: any of them. */
    assert_string_equal(name_of(&exec_of_pid, getpid()), "leader,other");
    assert_string_equal(name_of(&exec_of_pid, 999999998), "leader,other");
    assert_string_equal(name_of(&exec_of_pid, 0), "leader,other");
    /* A place without a name is nobody's. */
    exec_of_pid_set(&exec_of_pid, &keys[1], 999999999, "");
    assert_string_equal(name_of(&exec_of_pid, 0), "leader");
    exec_of_pid_set(&exec_of_pid, &keys[0], (uint32_t) leader, "");
    assert_string_equal(name_of(&exec_of_pid, leader), "");
    close(fd);
    waitpid(leader, &status, 0);
    exec_of_pid_done(&exec_of_pid);
}

static void a_pid_that_is_not_known_yet_matches_nothing(void **state)
{
    struct exec_of_pid exec_of_pid = EXEC_OF_PID_EMPTY;

    (void) state;
    exec_of_pid_set(&exec_of_pid, &keys[0], 0, "starting");
    exec_of_pid_set(&exec_of_pid, &keys[1], 0, "too");
    assert_string_equal(name_of(&exec_of_pid, 1), "starting,too");
    exec_of_pid_done(&exec_of_pid);
}

static void many_names_do_not_fit_and_none_is_cut(void **state)
{
    struct exec_of_pid exec_of_pid = EXEC_OF_PID_EMPTY;
    static int many[100];
    char name[CTL_NAME_MAX], out[CTL_NAME_MAX];

    (void) state;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "command-%03d", i);
        exec_of_pid_set(&exec_of_pid, &many[i], (uint32_t) (900000000 + i), name);
    }
    exec_of_pid_find(&exec_of_pid, 0, out);
    assert_int_equal(strlen(out) % 12, 11);
    for (char *part = strtok(out, ","); part; part = strtok(NULL, ","))
        assert_int_equal(strlen(part), 11);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    exec_of_pid_done(&exec_of_pid);
    exec_of_pid_set(&exec_of_pid, &many[0], 1, name);
    assert_string_equal(name_of(&exec_of_pid, 0), name);
    exec_of_pid_done(&exec_of_pid);
}

static int64_t now(void)
{
    usleep(1000);
    int64_t t = clock_wall_ns();
    usleep(1000);
    return t;
}

static const char *name_at(struct exec_of_pid *exec_of_pid, pid_t pid, int64_t wall_ns)
{
    static char out[CTL_NAME_MAX];

    exec_of_pid_find_at(exec_of_pid, pid, wall_ns, out);
    return out;
}

/* It asked before its pid was known, and both are gone when somebody wants to know. */
static void a_stranger_is_remembered_until_it_is_known_who_it_was(void **state)
{
    struct exec_of_pid exec_of_pid = EXEC_OF_PID_EMPTY;
    int fd, status;
    pid_t leader = start_leader(&fd);
    int64_t then;

    (void) state;
    exec_of_pid_set(&exec_of_pid, &keys[0], 0, "leader");
    exec_of_pid_set(&exec_of_pid, &keys[1], 999999999, "other");
    assert_string_equal(name_of(&exec_of_pid, leader), "leader,other");
    then = now();
    close(fd);
    waitpid(leader, &status, 0);
    assert_string_equal(name_at(&exec_of_pid, leader, then), "leader,other");
    exec_of_pid_set(&exec_of_pid, &keys[0], (uint32_t) leader, "leader");
    assert_string_equal(name_at(&exec_of_pid, leader, then), "leader");
    exec_of_pid_remove(&exec_of_pid, &keys[0]);
    assert_string_equal(name_at(&exec_of_pid, leader, then), "leader");
    exec_of_pid_done(&exec_of_pid);
}

static void who_has_left_is_remembered_with_its_time(void **state)
{
    struct exec_of_pid exec_of_pid = EXEC_OF_PID_EMPTY;
    int64_t before = now(), one, both, second, after;

    (void) state;
    exec_of_pid_set(&exec_of_pid, &keys[0], 0, "first");
    exec_of_pid_set(&exec_of_pid, &keys[0], 5, "first"); /* its pid became known */
    one = now();
    exec_of_pid_set(&exec_of_pid, &keys[1], 6, "second");
    both = now();
    exec_of_pid_remove(&exec_of_pid, &keys[0]);
    second = now();
    exec_of_pid_set(&exec_of_pid, &keys[1], 6, ""); /* a session whose command has ended */
    after = now();
    exec_of_pid_set(&exec_of_pid, &keys[2], 7, "third");
    assert_string_equal(name_at(&exec_of_pid, 0, before), "");
    assert_string_equal(name_at(&exec_of_pid, 999999998, one), "first");
    assert_string_equal(name_at(&exec_of_pid, 999999998, both), "first,second");
    assert_string_equal(name_at(&exec_of_pid, 0, second), "second");
    assert_string_equal(name_at(&exec_of_pid, 0, after), "");
    assert_string_equal(name_at(&exec_of_pid, 0, now()), "third");
    for (int i = 0; i < 2 * EXEC_OF_PID_PAST_MAX; i++) {
        exec_of_pid_set(&exec_of_pid, &keys[3], 8, "many");
        exec_of_pid_remove(&exec_of_pid, &keys[3]);
    }
    assert_string_equal(name_at(&exec_of_pid, 0, one), ""); /* too long ago */
    exec_of_pid_done(&exec_of_pid);
}

static atomic_bool is_over;

static void *ask(void *cookie)
{
    char out[CTL_NAME_MAX];

    while (!is_over) {
        exec_of_pid_find(cookie, getpid(), out);
        if (strlen(out) >= CTL_NAME_MAX || strspn(out, "abcdefgh,") != strlen(out))
            abort();
    }
    return NULL;
}

static void it_is_asked_while_it_changes(void **state)
{
    struct exec_of_pid exec_of_pid = EXEC_OF_PID_EMPTY;
    pthread_t threads[3];

    (void) state;
    is_over = false;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &exec_of_pid), 0);
    for (int i = 0; i < 20000; i++) {
        char name[2] = { (char) ('a' + i % 8), '\0' };

        exec_of_pid_set(&exec_of_pid, &keys[i % 8], (uint32_t) i + 1, name);
        if (i % 3 == 0)
            exec_of_pid_remove(&exec_of_pid, &keys[(i * 5) % 8]);
    }
    is_over = true;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    exec_of_pid_done(&exec_of_pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_runs),
        cmocka_unit_test(the_only_one_it_is),
        cmocka_unit_test(of_several_the_one_whose_session_it_is),
        cmocka_unit_test(a_pid_that_is_not_known_yet_matches_nothing),
        cmocka_unit_test(many_names_do_not_fit_and_none_is_cut),
        cmocka_unit_test(a_stranger_is_remembered_until_it_is_known_who_it_was),
        cmocka_unit_test(who_has_left_is_remembered_with_its_time),
        cmocka_unit_test(it_is_asked_while_it_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
