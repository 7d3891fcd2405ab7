/* The change log: what it records of changes, and that repeated changes do not fill it. */
#include "fence_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "fence/change_log.h"

static const char *const all[] = { "/**=write", NULL };
static const char *running = "";

static void exec_of(pid_t pid, char out[FENCE_EXEC_MAX], void *cookie)
{
    (void) pid;
    (void) cookie;
    snprintf(out, FENCE_EXEC_MAX, "%s", running);
}

static void begin(struct fixture *x)
{
    running = "ex_1";
    fixture_init(x);
    fixture_open(x, all, 0);
    x->fence->exec_of = exec_of;
}

/* Counts the lines that contain this. */
static unsigned count(struct fixture *x, const char *words)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    unsigned n = 0;

    assert_int_equal(file_read(x->fd, "delta/meta/changes", 1 << 24, &text), 0);
    for (const char *at = text.data; at && (at = strstr(at, words)); at++)
        n++;
    return n;
}

static void go_round(struct fixture *x, const char *a, const char *b)
{
    assert_int_equal(op_rename(x->fence, &nobody, x->fence->root, a, x->fence->root, b, 0), 0);
    assert_int_equal(op_rename(x->fence, &nobody, x->fence->root, b, x->fence->root, a, 0), 0);
}

static void make_and_remove(struct fixture *x, const char *name)
{
    make_file(x, "", name, "text");
    assert_int_equal(op_unlink(x->fence, &nobody, x->fence->root, name), 0);
}

static void circles_are_told_once(void **state)
{
    struct fixture x;

    (void) state;
    begin(&x);
    make_file(&x, "", "a", "text");
    for (int i = 0; i < 1000; i++) {
        go_round(&x, "a", "b");
        make_and_remove(&x, "temp");
    }
    assert_int_equal(count(&x, "\"renamed\",\"path\":\"a\""), 1);
    assert_int_equal(count(&x, "\"renamed\",\"path\":\"b\""), 1);
    assert_int_equal(count(&x, "\"created\",\"path\":\"temp\""), 1);
    assert_int_equal(count(&x, "\"deleted\",\"path\":\"temp\""), 1);
    assert_in_range(count(&x, "\n"), 5, 12);
    fixture_done(&x);
}

static void another_command_is_told_of_and_so_is_the_first_after_it(void **state)
{
    struct fixture x;

    (void) state;
    begin(&x);
    make_and_remove(&x, "temp");
    running = "ex_2";
    make_and_remove(&x, "temp");
    running = "ex_1";
    make_and_remove(&x, "temp");
    make_and_remove(&x, "temp");
    assert_int_equal(count(&x, "\"created\",\"path\":\"temp\",\"exec\":\"ex_1\""), 2);
    assert_int_equal(count(&x, "\"created\",\"path\":\"temp\",\"exec\":\"ex_2\""), 1);
    fixture_done(&x);
}

/* A path that left the delta is logged again. */
static void what_left_the_delta_is_told_again(void **state)
{
    struct fixture x;

    (void) state;
    begin(&x);
    make_and_remove(&x, "temp");
    assert_int_equal(change_log_add_reverted(x.fence->change_log, (const char *const[]){ "temp" }, 1), 0);
    make_and_remove(&x, "temp");
    assert_int_equal(count(&x, "\"created\",\"path\":\"temp\""), 2);
    autofd int fd = openat(x.fd, "delta/meta/changes", O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "{}\n", 3), 3);
    make_and_remove(&x, "temp");
    assert_int_equal(count(&x, "\"created\",\"path\":\"temp\""), 3);
    change_log_clear(x.fence->change_log);
    make_and_remove(&x, "temp");
    assert_int_equal(count(&x, "\"created\",\"path\":\"temp\""), 1);
    fixture_done(&x);
}

/* A rename logs its target too. */
static void a_new_place_is_told(void **state)
{
    struct fixture x;

    (void) state;
    begin(&x);
    make_file(&x, "", "a", "text");
    go_round(&x, "a", "b");
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "a", x.fence->root, "c", 0), 0);
    assert_int_equal(count(&x, "\"to\":\"c\""), 1);
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "c", x.fence->root, "a", 0), 0);
    assert_int_equal(count(&x, "\"renamed\",\"path\":\"c\""), 1);
    fixture_done(&x);
}

static off_t size_of(struct fixture *x)
{
    struct stat st;

    assert_int_equal(fstatat(x->fd, "delta/meta/changes", &st, 0), 0);
    return st.st_size;
}

/* New names by new commands, and saves as editors make them. */
static void churn(struct fixture *x, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        char exec[16], temp[32];

        snprintf(exec, sizeof(exec), "ex_%d", i / 3);
        snprintf(temp, sizeof(temp), ".temp%d", i);
        running = exec;
        make_and_remove(x, temp);
        make_file(x, "", temp, "saved");
        assert_int_equal(op_rename(x->fence, &nobody, x->fence->root, temp, x->fence->root, "doc", 0), 0);
    }
    running = "ex_1";
}

static void what_came_and_went_is_forgotten(void **state)
{
    struct fixture x;
    off_t most = 0;

    (void) state;
    begin(&x);
    put_file(&x, "base/old", "text");
    put_file(&x, "base/doc", "text");
    change_log_set_rewrite(x.fence->change_log, 16384, 0);
    make_file(&x, "", "first", "text");
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "old"), 0);
    for (int i = 0; i < 20; i++) {
        churn(&x, 100);
        change_log_await_rewrite(x.fence->change_log);
        most = size_of(&x) > most ? size_of(&x) : most;
    }
    assert_in_range(most, 1000, 80000); /* 800,000 bytes were logged */
    assert_int_equal(count(&x, "\"created\",\"path\":\"first\""), 1);
    assert_int_equal(count(&x, "\"deleted\",\"path\":\"old\""), 1);
    assert_true(count(&x, "\"to\":\"doc\"") >= 2);
    /* Later lines are in the file that has the name. */
    running = "ex_last";
    make_file(&x, "", "last", "text");
    assert_int_equal(count(&x, "\"created\",\"path\":\"last\",\"exec\":\"ex_last\""), 1);
    fixture_done(&x);
}

/* Compaction may have removed the lines about a path, so its next change is logged again, also for the same command. */
static void what_comes_back_is_told_again(void **state)
{
    struct fixture x;

    (void) state;
    begin(&x);
    change_log_set_rewrite(x.fence->change_log, 4096, 0);
    make_and_remove(&x, "temp");
    while (count(&x, "\"path\":\"temp\"") > 0) {
        static int i;
        char name[16];
        snprintf(name, sizeof(name), "t%d", i++);
        make_and_remove(&x, name);
    }
    change_log_await_rewrite(x.fence->change_log);
    make_file(&x, "", "temp", "text");
    assert_int_equal(count(&x, "\"created\",\"path\":\"temp\",\"exec\":\"ex_1\""), 1);
    fixture_done(&x);
}

/* Appends as appliers of changes do (review/change_log_index.c). */
static void say_in_between(struct fixture *x)
{
    for (;;) {
        autofd int fd = openat(x->fd, "delta/meta/changes", O_WRONLY | O_APPEND | O_CLOEXEC);
        struct stat st;

        assert_true(fd >= 0);
        assert_int_equal(flock(fd, LOCK_EX), 0);
        assert_int_equal(fstat(fd, &st), 0);
        if (st.st_nlink == 0)
            continue;
        dprintf(fd, "{\"time_ns\":1,\"change\":\"dropped\",\"path\":\"theirs\"}\n");
        return;
    }
}

struct others {
    struct fixture *x;
    atomic_bool is_over;
};

static void *say_often(void *arg)
{
    struct others *o = arg;

    while (!atomic_load(&o->is_over)) {
        /* Bounded, in case the other threads get little CPU time. */
        if (size_of(o->x) < 1 << 20)
            say_in_between(o->x);
        else
            usleep(1000);
    }
    return NULL;
}

/* Everything up to the last newline: a writer may be about to write behind it. */
static void check_lines(struct fixture *x)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    const char *end;

    assert_int_equal(file_read(x->fd, "delta/meta/changes", 1 << 26, &text), 0);
    for (const char *at = text.data; at && (end = strchr(at, '\n')); at = end + 1) {
        if (strncmp(at, "{\"time_ns\":", 11) != 0 || end[-1] != '}')
            fail_msg("no whole line: %.*s", (int) (end - at), at);
    }
}

static void what_others_say_meanwhile_stays_whole(void **state)
{
    struct fixture x;
    struct others o = { .x = &x };
    pthread_t thread;

    (void) state;
    begin(&x);
    assert_int_equal(pthread_create(&thread, NULL, say_often, &o), 0);
    for (int i = 0; i < 40; i++) {
        change_log_set_rewrite(x.fence->change_log, 4096, 0);
        churn(&x, 20);
        change_log_await_rewrite(x.fence->change_log);
        check_lines(&x);
    }
    atomic_store(&o.is_over, true);
    pthread_join(thread, NULL);
    say_in_between(&x);
    assert_true(count(&x, "\"dropped\",\"path\":\"theirs\"") > 0);
    fixture_done(&x);
}

/* The change may not have happened yet. */
static void what_is_young_stays(void **state)
{
    struct fixture x;

    (void) state;
    begin(&x);
    change_log_set_rewrite(x.fence->change_log, 4096, INT64_C(3600) * 1000000000);
    make_and_remove(&x, "temp");
    churn(&x, 100);
    assert_int_equal(count(&x, "\"created\",\"path\":\"temp\""), 1);
    assert_int_equal(count(&x, "\"created\",\"path\":\".temp7\""), 1);
    fixture_done(&x);
}

/* A line that was cut off for lack of space does not damage the lines that follow. */
static void a_torn_line_is_the_only_one_lost(void **state)
{
    struct rlimit old, little;
    struct fixture x;

    (void) state;
    begin(&x);
    make_file(&x, "", "before", "text");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    little = (struct rlimit){ (rlim_t) size_of(&x) + 20, old.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    make_dir(&x, "", "torn");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    make_file(&x, "", "after", "text");
    assert_int_equal(count(&x, "\"torn\""), 0);
    assert_int_equal(count(&x, "\n{\"time_ns\":"), count(&x, "\n") - 1);
    assert_int_equal(count(&x, "\"created\",\"path\":\"after\""), 1);
    fixture_done(&x);
}

/* Killed at any moment, also while the compacted text replaces the log. */
static void a_kill_leaves_a_whole_diary(void **state)
{
    (void) state;
    for (int round = 0; round < 12; round++) {
        struct fixture x;

        begin(&x);
        put_file(&x, "base/doc", "text");
        make_file(&x, "", "first", "text");
        fixture_close(&x);
        pid_t child = fork();
        if (child == 0) {
            if (round % 3 == 0)
                setenv("AGENTFENSE_FAULT", "log-gist", 1);
            fixture_open(&x, all, 0);
            x.fence->exec_of = exec_of;
            change_log_set_rewrite(x.fence->change_log, 4096, 0);
            for (;;)
                churn(&x, 50);
        }
        if (round % 3 != 0) {
            usleep(20000 + 9000 * (useconds_t) round);
            kill(child, SIGKILL);
        }
        assert_int_equal(waitpid(child, NULL, 0), child);
        fixture_open(&x, all, 0);
        assert_int_equal(count(&x, "\"created\",\"path\":\"first\""), 1);
        assert_int_equal(count(&x, "\n{\"time_ns\":") + 1, count(&x, "\n"));
        fixture_done(&x);
    }
}

/* Otherwise a process inside could find two paths that are logged as one. */
static void nobody_can_know_which_paths_are_the_same_by_hash(void **state)
{
    struct fixture x;
    uint64_t hash_secret;

    (void) state;
    begin(&x);
    hash_secret = x.fence->hash_secret;
    fixture_close(&x);
    fixture_open(&x, all, 0);
    assert_int_not_equal(x.fence->hash_secret, hash_secret);
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(circles_are_told_once),
        cmocka_unit_test(another_command_is_told_of_and_so_is_the_first_after_it),
        cmocka_unit_test(what_left_the_delta_is_told_again),
        cmocka_unit_test(a_new_place_is_told),
        cmocka_unit_test(what_came_and_went_is_forgotten),
        cmocka_unit_test(what_comes_back_is_told_again),
        cmocka_unit_test(what_others_say_meanwhile_stays_whole),
        cmocka_unit_test(what_is_young_stays),
        cmocka_unit_test(a_torn_line_is_the_only_one_lost),
        cmocka_unit_test(a_kill_leaves_a_whole_diary),
        cmocka_unit_test(nobody_can_know_which_paths_are_the_same_by_hash),
    };

    use_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
