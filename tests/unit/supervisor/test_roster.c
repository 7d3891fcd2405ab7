#include "supervisor/roster.h"

#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"

static int keys[8];

static const char *name_of(struct roster *roster, pid_t pid)
{
    static char out[CTL_NAME_MAX];

    roster_name_of(roster, pid, out);
    return out;
}

static void nobody_runs(void **state)
{
    struct roster roster = ROSTER_EMPTY;

    (void) state;
    assert_string_equal(name_of(&roster, 0), "");
    assert_string_equal(name_of(&roster, getpid()), "");
    roster_remove(&roster, &keys[0]);
    roster_done(&roster);
}

static void the_only_one_it_is(void **state)
{
    struct roster roster = ROSTER_EMPTY;

    (void) state;
    roster_set(&roster, &keys[0], 0, "one");
    assert_string_equal(name_of(&roster, getpid()), "one");
    assert_string_equal(name_of(&roster, 0), "one");
    roster_remove(&roster, &keys[0]);
    assert_string_equal(name_of(&roster, 0), "");
    roster_done(&roster);
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
    struct roster roster = ROSTER_EMPTY;
    int fd, status;
    pid_t leader = start_leader(&fd);

    (void) state;
    roster_set(&roster, &keys[0], (uint32_t) leader, "leader");
    roster_set(&roster, &keys[1], 999999999, "other");
    assert_string_equal(name_of(&roster, leader), "leader");
    /* A session that nobody has, a process that is gone, no process: any of them. */
    assert_string_equal(name_of(&roster, getpid()), "leader,other");
    assert_string_equal(name_of(&roster, 999999998), "leader,other");
    assert_string_equal(name_of(&roster, 0), "leader,other");
    /* A place without a name is nobody's. */
    roster_set(&roster, &keys[1], 999999999, "");
    assert_string_equal(name_of(&roster, 0), "leader");
    roster_set(&roster, &keys[0], (uint32_t) leader, "");
    assert_string_equal(name_of(&roster, leader), "");
    close(fd);
    waitpid(leader, &status, 0);
    roster_done(&roster);
}

static void a_pid_that_is_not_known_yet_matches_nothing(void **state)
{
    struct roster roster = ROSTER_EMPTY;

    (void) state;
    roster_set(&roster, &keys[0], 0, "starting");
    roster_set(&roster, &keys[1], 0, "too");
    assert_string_equal(name_of(&roster, 1), "starting,too");
    roster_done(&roster);
}

static void many_names_do_not_fit_and_none_is_cut(void **state)
{
    struct roster roster = ROSTER_EMPTY;
    static int many[100];
    char name[CTL_NAME_MAX], out[CTL_NAME_MAX];

    (void) state;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "command-%03d", i);
        roster_set(&roster, &many[i], (uint32_t) (900000000 + i), name);
    }
    roster_name_of(&roster, 0, out);
    assert_int_equal(strlen(out) % 12, 11);
    for (char *part = strtok(out, ","); part; part = strtok(NULL, ","))
        assert_int_equal(strlen(part), 11);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    roster_done(&roster);
    roster_set(&roster, &many[0], 1, name);
    assert_string_equal(name_of(&roster, 0), name);
    roster_done(&roster);
}

static int64_t now(void)
{
    usleep(1000);
    int64_t t = clock_wall_ns();
    usleep(1000);
    return t;
}

static const char *name_at(struct roster *roster, pid_t pid, int64_t wall_ns)
{
    static char out[CTL_NAME_MAX];

    roster_name_at(roster, pid, wall_ns, out);
    return out;
}

/* It asked before its pid was known, and both are gone when somebody wants to know. */
static void a_stranger_is_remembered_until_it_is_known_who_it_was(void **state)
{
    struct roster roster = ROSTER_EMPTY;
    int fd, status;
    pid_t leader = start_leader(&fd);
    int64_t then;

    (void) state;
    roster_set(&roster, &keys[0], 0, "leader");
    roster_set(&roster, &keys[1], 999999999, "other");
    assert_string_equal(name_of(&roster, leader), "leader,other");
    then = now();
    close(fd);
    waitpid(leader, &status, 0);
    assert_string_equal(name_at(&roster, leader, then), "leader,other");
    roster_set(&roster, &keys[0], (uint32_t) leader, "leader");
    assert_string_equal(name_at(&roster, leader, then), "leader");
    roster_remove(&roster, &keys[0]);
    assert_string_equal(name_at(&roster, leader, then), "leader");
    roster_done(&roster);
}

static void who_has_left_is_remembered_with_its_time(void **state)
{
    struct roster roster = ROSTER_EMPTY;
    int64_t before = now(), one, both, second, after;

    (void) state;
    roster_set(&roster, &keys[0], 0, "first");
    roster_set(&roster, &keys[0], 5, "first"); /* its pid became known */
    one = now();
    roster_set(&roster, &keys[1], 6, "second");
    both = now();
    roster_remove(&roster, &keys[0]);
    second = now();
    roster_set(&roster, &keys[1], 6, ""); /* a session whose command has ended */
    after = now();
    roster_set(&roster, &keys[2], 7, "third");
    assert_string_equal(name_at(&roster, 0, before), "");
    assert_string_equal(name_at(&roster, 999999998, one), "first");
    assert_string_equal(name_at(&roster, 999999998, both), "first,second");
    assert_string_equal(name_at(&roster, 0, second), "second");
    assert_string_equal(name_at(&roster, 0, after), "");
    assert_string_equal(name_at(&roster, 0, now()), "third");
    for (int i = 0; i < 2 * ROSTER_PAST_MAX; i++) {
        roster_set(&roster, &keys[3], 8, "many");
        roster_remove(&roster, &keys[3]);
    }
    assert_string_equal(name_at(&roster, 0, one), ""); /* too long ago */
    roster_done(&roster);
}

static atomic_bool is_over;

static void *ask(void *cookie)
{
    char out[CTL_NAME_MAX];

    while (!is_over) {
        roster_name_of(cookie, getpid(), out);
        if (strlen(out) >= CTL_NAME_MAX || strspn(out, "abcdefgh,") != strlen(out))
            abort();
    }
    return NULL;
}

static void it_is_asked_while_it_changes(void **state)
{
    struct roster roster = ROSTER_EMPTY;
    pthread_t threads[3];

    (void) state;
    is_over = false;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &roster), 0);
    for (int i = 0; i < 20000; i++) {
        char name[2] = { (char) ('a' + i % 8), '\0' };

        roster_set(&roster, &keys[i % 8], (uint32_t) i + 1, name);
        if (i % 3 == 0)
            roster_remove(&roster, &keys[(i * 5) % 8]);
    }
    is_over = true;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    roster_done(&roster);
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
