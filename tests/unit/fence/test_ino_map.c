#include "fence_fixture.h"

#include <signal.h>
#include <sys/wait.h>

#include "fence/ino_map.h"

static const char *const all[] = { "/**=write", NULL };

static uint64_t number_at(struct fixture *x, const char *path)
{
    struct stat st = { 0 };

    assert_non_null(walk(x, path, &st));
    return st.st_ino;
}

static void make(struct fixture *x, const char *name)
{
    struct entry_answer answer;

    assert_int_equal(op_mknod(x->fence, &nobody, x->fence->root, name, S_IFREG | 0644, &answer), 0);
}

static void move(struct fixture *x, const char *from, const char *to)
{
    assert_int_equal(op_rename(x->fence, &nobody, x->fence->root, from, x->fence->root, to, 0), 0);
}

static void reopen(struct fixture *x)
{
    fixture_close(x);
    fixture_open(x, all, 0);
}

static off_t log_bytes(struct fixture *x)
{
    struct stat st;

    assert_int_equal(fstatat(x->fd, "delta/meta/numbers", &st, 0), 0);
    return st.st_size;
}

static void created_and_renamed_files_keep_their_numbers(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/old", "o");
    fixture_open(&x, all, 0);
    make(&x, "new");
    uint64_t new = number_at(&x, "new"), old = number_at(&x, "old");
    move(&x, "old", "moved");
    make(&x, "old");
    uint64_t second = number_at(&x, "old");
    for (int i = 0; i < 3; i++) {
        reopen(&x);
        assert_int_equal(number_at(&x, "new"), new);
        assert_int_equal(number_at(&x, "moved"), old);
        assert_int_equal(number_at(&x, "old"), second);
    }
    fixture_done(&x);
}

static void numbers_made_after_a_remount_are_new_ones(void **state)
{
    struct fixture x;
    uint64_t seen[30];
    char name[8];

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all, 0);
    for (size_t i = 0; i < 30; i++) {
        if (i % 10 == 9)
            reopen(&x);
        snprintf(name, sizeof(name), "f%zu", i);
        make(&x, name);
        seen[i] = number_at(&x, name);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(seen[k], seen[i]);
    }
    fixture_done(&x);
}

static void a_name_left_of_two_keeps_the_number_of_both(void **state)
{
    struct fixture x;
    struct entry_answer answer;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/a", "a");
    put_file(&x, "base/c", "c");
    fixture_open(&x, all, 0);
    uint64_t a = number_at(&x, "a"), c = number_at(&x, "c");
    assert_int_equal(op_link(x.fence, &nobody, walk(&x, "a", NULL), x.fence->root, "b", &answer), 0);
    assert_int_equal(op_link(x.fence, &nobody, walk(&x, "c", NULL), x.fence->root, "d", &answer), 0);
    reopen(&x);
    assert_int_equal(number_at(&x, "a"), a);
    assert_int_equal(number_at(&x, "b"), a);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "a"), 0);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "d"), 0);
    reopen(&x);
    assert_int_equal(number_at(&x, "b"), a);
    assert_int_equal(number_at(&x, "c"), c);
    fixture_done(&x);
}

static void a_missing_pair_makes_no_two_files_one(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/x", "x");
    fixture_open(&x, all, 0);
    uint64_t was = number_at(&x, "x");
    move(&x, "x", "z");
    make(&x, "x");
    off_t bytes = log_bytes(&x);
    fixture_close(&x);
    /* Leaves the log as after a crash between the change and its pair, or with an incomplete pair. */
    autofree char *log = xprintf("%s/delta/meta/numbers", x.dir);
    assert_int_equal(truncate(log, bytes - 9), 0);
    fixture_open(&x, all, 0);
    uint64_t now = number_at(&x, "x");
    assert_int_equal(number_at(&x, "z"), was);
    assert_int_not_equal(now, was);
    reopen(&x);
    assert_int_equal(number_at(&x, "x"), now);
    assert_int_equal(number_at(&x, "z"), was);
    fixture_done(&x);
}

static void what_is_void_goes_at_the_next_mount(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all, 0);
    make(&x, "stays");
    uint64_t stays = number_at(&x, "stays"), last = 0;
    for (int i = 0; i < 2000; i++) {
        make(&x, "comes");
        last = number_at(&x, "comes");
        assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "comes"), 0);
    }
    assert_true(log_bytes(&x) > 60000);
    reopen(&x);
    assert_true(log_bytes(&x) < 100);
    assert_int_equal(number_at(&x, "stays"), stays);
    make(&x, "comes");
    assert_int_not_equal(number_at(&x, "comes"), last);
    uint64_t comes = number_at(&x, "comes");
    reopen(&x);
    assert_int_equal(number_at(&x, "comes"), comes);
    assert_int_equal(number_at(&x, "stays"), stays);
    fixture_done(&x);
}

/* A kill between a change and its pair, with the table of pairs growing while it is loaded. */
static void a_missing_pair_does_no_harm_where_changes_are_handed_over(void **state)
{
    struct fixture x;
    struct stat st;
    char name[32], path[32];

    (void) state;
    fixture_init(&x);
    x.syncs_out = true;
    put_file(&x, "base/old", "o");
    fixture_open(&x, all, 0);
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        make(&x, name);
    }
    move(&x, "old", "moved");
    make(&x, "old");
    uint64_t moved = number_at(&x, "moved");
    off_t bytes = log_bytes(&x);
    fixture_close(&x);
    autofree char *log = xprintf("%s/delta/meta/numbers", x.dir);
    assert_int_equal(truncate(log, bytes - 16), 0);
    fixture_open(&x, all, 0);
    assert_int_equal(number_at(&x, "moved"), moved);
    assert_int_not_equal(number_at(&x, "old"), moved);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "b%d", i);
        snprintf(path, sizeof(path), "base/%s", name);
        put_file(&x, path, "x");
        assert_non_null(walk(&x, name, &st));
    }
    fixture_done(&x);
}

/* New names on a long-lived mount: records about removed ones are dropped too. */
static void names_that_came_and_went_leave_no_trace(void **state)
{
    (void) state;
    for (int syncs_out = 0; syncs_out < 2; syncs_out++) {
        struct fixture x;

        fixture_init(&x);
        x.syncs_out = syncs_out;
        fixture_open(&x, all, 0);
        ino_map_set_rewrite_min(x.fence, 256);
        make(&x, "kept");
        move(&x, "kept", "moved");
        uint64_t kept = number_at(&x, "moved");
        for (unsigned i = 0; i < full_or_share(5000, 1500); i++) {
            char name[32];
            snprintf(name, sizeof(name), "temp%u", i);
            make(&x, name);
            assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, name), 0);
        }
        assert_in_range(log_bytes(&x), 16, 512 * 16);
        make(&x, "late");
        uint64_t late = number_at(&x, "late");
        for (int i = 0; i < 2; i++) {
            reopen(&x);
            assert_int_equal(number_at(&x, "moved"), kept);
            assert_int_equal(number_at(&x, "late"), late);
        }
        make(&x, "later");
        assert_int_not_equal(number_at(&x, "later"), late);
        assert_int_not_equal(number_at(&x, "later"), kept);
        fixture_done(&x);
    }
}

/* Killed at any moment, also while a long log is rewritten. */
static void a_kill_loses_no_number(void **state)
{
    (void) state;
    for (int round = 0; round < 10; round++) {
        struct fixture x;
        uint64_t kept;

        fixture_init(&x);
        x.syncs_out = round % 2;
        fixture_open(&x, all, 0);
        make(&x, "draft");
        move(&x, "draft", "kept");
        kept = number_at(&x, "kept");
        fixture_close(&x);
        pid_t child = fork();
        if (child == 0) {
            if (round < 4)
                setenv("AGENTFENSE_FAULT", "log-numbers", 1);
            fixture_open(&x, all, 0);
            ino_map_set_rewrite_min(x.fence, 64);
            for (int i = 0;; i++) {
                char name[32];
                snprintf(name, sizeof(name), "temp%d", i);
                make(&x, name);
                assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, name), 0);
            }
        }
        if (round >= 4) {
            usleep(5000 * (useconds_t) round);
            kill(child, SIGKILL);
        }
        assert_int_equal(waitpid(child, NULL, 0), child);
        fixture_open(&x, all, 0);
        assert_int_equal(number_at(&x, "kept"), kept);
        make(&x, "new");
        assert_int_not_equal(number_at(&x, "new"), kept);
        fixture_done(&x);
    }
}

/* Everything that exists keeps its pair, however long the log is. */
static void a_long_log_of_names_that_are_there_loses_none(void **state)
{
    enum { FILES = 600 };
    static uint64_t ino_map[FILES];
    struct fixture x;
    char name[32];

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all, 0);
    ino_map_set_rewrite_min(x.fence, 64);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        make(&x, "draft");
        move(&x, "draft", name);
        ino_map[i] = number_at(&x, name);
    }
    reopen(&x);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        assert_int_equal(number_at(&x, name), ino_map[i]);
    }
    fixture_done(&x);
}

/* The missing number is made while the tree is loaded, when what was read is still needed. */
static void a_long_log_with_a_missing_pair_loses_none(void **state)
{
    enum { FILES = 40, VOID = 300000 };
    autofree uint64_t *none = xalloc(VOID * 2 * sizeof(*none));
    uint64_t ino_map[FILES];
    struct fixture x;
    char name[32];

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/x", "x");
    fixture_open(&x, all, 0);
    move(&x, "x", "z");
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        make(&x, name);
        ino_map[i] = number_at(&x, name);
    }
    off_t bytes = log_bytes(&x);
    make(&x, "x");
    fixture_close(&x);
    autofd int log = openat(x.fd, "delta/meta/numbers", O_WRONLY | O_CLOEXEC);
    for (size_t i = 0; i < VOID; i++)
        none[i * 2] = UINT64_MAX - i;
    assert_int_equal(pwrite(log, none, VOID * 2 * sizeof(*none), bytes), VOID * 2 * sizeof(*none));
    for (int round = 0; round < 2; round++) {
        fixture_open(&x, all, 0);
        for (int i = 0; i < FILES; i++) {
            snprintf(name, sizeof(name), "f%d", i);
            assert_int_equal(number_at(&x, name), ino_map[i]);
        }
        assert_int_not_equal(number_at(&x, "x"), number_at(&x, "z"));
        assert_true(log_bytes(&x) < 4096);
        fixture_close(&x);
    }
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_pair_does_no_harm_where_changes_are_handed_over),
        cmocka_unit_test(a_kill_loses_no_number),
        cmocka_unit_test(names_that_came_and_went_leave_no_trace),
        cmocka_unit_test(a_long_log_of_names_that_are_there_loses_none),
        cmocka_unit_test(a_long_log_with_a_missing_pair_loses_none),
        cmocka_unit_test(created_and_renamed_files_keep_their_numbers),
        cmocka_unit_test(numbers_made_after_a_remount_are_new_ones),
        cmocka_unit_test(a_name_left_of_two_keeps_the_number_of_both),
        cmocka_unit_test(a_missing_pair_makes_no_two_files_one),
        cmocka_unit_test(what_is_void_goes_at_the_next_mount),
    };

    use_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
