#include "fence_fixture.h"

#include <sys/wait.h>

#include "fence/map_log.h"

enum { KEY, VALUE, WORDS };

static void open_in(struct fixture *x, struct map_log *ret)
{
    *ret = (struct map_log){ .words = WORDS, .void_at = VALUE, .void_word = 0 };
    assert_int_equal(map_log_open(ret, x->fd, "lines"), 0);
    assert_int_equal(map_log_read(ret), 0);
}

static void reopen(struct fixture *x, struct map_log *l)
{
    map_log_close(l);
    open_in(x, l);
}

static void say(struct map_log *l, uint64_t key, uint64_t value)
{
    const uint64_t line[WORDS] = { key, value };

    map_log_put(l, line);
    assert_true(map_log_append(l, line));
}

static uint64_t value_of(const struct map_log *l, uint64_t key)
{
    const uint64_t *line = map_log_find(l, key);

    return line ? line[VALUE] : 0;
}

static off_t file_bytes(struct fixture *x)
{
    struct stat st;

    assert_int_equal(fstatat(x->fd, "lines", &st, 0), 0);
    return st.st_size;
}

static void the_last_line_of_a_key_counts(void **state)
{
    struct fixture x;
    struct map_log l;

    (void) state;
    fixture_init(&x);
    open_in(&x, &l);
    say(&l, 5, 1);
    say(&l, 6, 2);
    say(&l, 5, 3);
    say(&l, 6, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(value_of(&l, 5), 3);
        assert_null(map_log_find(&l, 6));
        assert_null(map_log_find(&l, 7));
        assert_int_equal(l.value_count, 1);
        assert_int_equal(l.count, 4);
        reopen(&x, &l);
    }
    map_log_close(&l);
    fixture_done(&x);
}

static void what_it_says_already_is_told(void **state)
{
    struct map_log l = { .words = WORDS, .void_at = VALUE };

    (void) state;
    assert_true(map_log_put(&l, (uint64_t[]){ 5, 1 }));
    assert_false(map_log_put(&l, (uint64_t[]){ 5, 1 }));
    assert_true(map_log_put(&l, (uint64_t[]){ 5, 2 }));
    map_log_clear_table(&l);
    assert_null(map_log_find(&l, 5));
}

static void a_torn_line_is_none_and_gives_way(void **state)
{
    struct fixture x;
    struct map_log l;

    (void) state;
    for (off_t left = 1; left < 16; left++) {
        fixture_init(&x);
        open_in(&x, &l);
        say(&l, 5, 1);
        say(&l, 5, 2);
        assert_int_equal(ftruncate(l.fd, 16 + left), 0);
        reopen(&x, &l);
        assert_int_equal(value_of(&l, 5), 1);
        say(&l, 6, 3);
        assert_int_equal(file_bytes(&x), 32);
        reopen(&x, &l);
        assert_int_equal(value_of(&l, 5), 1);
        assert_int_equal(value_of(&l, 6), 3);
        map_log_close(&l);
        fixture_done(&x);
    }
}

static void a_place_that_was_never_written_is_passed_over(void **state)
{
    struct fixture x;
    struct map_log l;

    (void) state;
    fixture_init(&x);
    open_in(&x, &l);
    say(&l, 5, 1);
    l.count++;
    say(&l, 6, 2);
    reopen(&x, &l);
    assert_int_equal(l.count, 3);
    assert_int_equal(l.value_count, 2);
    map_log_close(&l);
    fixture_done(&x);
}

static void written_anew_it_has_what_holds(void **state)
{
    enum { KEYS = 3000 };
    struct fixture x;
    struct map_log l;

    (void) state;
    fixture_init(&x);
    open_in(&x, &l);
    for (uint64_t key = 1; key <= KEYS; key++) {
        say(&l, key, 1);
        say(&l, key, key % 3);
    }
    assert_int_equal(map_log_replace(&l, NULL, NULL), 0);
    assert_int_equal(l.count, KEYS / 3 * 2);
    say(&l, 3, 7);
    reopen(&x, &l);
    assert_int_equal(file_bytes(&x), (KEYS / 3 * 2 + 1) * 16);
    for (uint64_t key = 1; key <= KEYS; key++)
        assert_int_equal(value_of(&l, key), key == 3 ? 7 : key % 3);
    map_log_close(&l);
    fixture_done(&x);
}

static void written_anew_it_has_what_the_caller_keeps(void **state)
{
    autodone(buf) struct buf kept = BUF_EMPTY;
    const uint64_t line[WORDS] = { 8, 4 };
    struct fixture x;
    struct map_log l;

    (void) state;
    fixture_init(&x);
    open_in(&x, &l);
    say(&l, 5, 1);
    buf_add(&kept, line, sizeof(line));
    assert_int_equal(map_log_replace(&l, (uint64_t[]){ 1, 9 }, &kept), 0);
    assert_int_equal(l.count, 2);
    reopen(&x, &l);
    assert_null(map_log_find(&l, 5));
    assert_int_equal(value_of(&l, 1), 9);
    assert_int_equal(value_of(&l, 8), 4);
    map_log_close(&l);
    fixture_done(&x);
}

static void a_kill_while_it_is_written_anew_leaves_the_old_one(void **state)
{
    struct fixture x;
    struct map_log l;
    int status;

    (void) state;
    fixture_init(&x);
    open_in(&x, &l);
    say(&l, 5, 1);
    say(&l, 5, 2);
    pid_t child = fork();
    if (child == 0) {
        setenv("AGENTFENSE_FAULT", "log-lines", 1);
        map_log_replace(&l, NULL, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    reopen(&x, &l);
    assert_int_equal(l.count, 2);
    assert_int_equal(value_of(&l, 5), 2);
    map_log_close(&l);
    fixture_done(&x);
}

static void a_table_is_as_large_as_what_holds(void **state)
{
    struct map_log l = { .words = WORDS, .void_at = VALUE };

    (void) state;
    for (uint64_t key = 1; key <= 100000; key++) {
        map_log_put(&l, (uint64_t[]){ key, 1 });
        map_log_put(&l, (uint64_t[]){ key, 0 });
    }
    assert_int_equal(l.value_count, 0);
    assert_true(l.cap <= 64);
    map_log_clear_table(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_line_of_a_key_counts),
        cmocka_unit_test(what_it_says_already_is_told),
        cmocka_unit_test(a_torn_line_is_none_and_gives_way),
        cmocka_unit_test(a_place_that_was_never_written_is_passed_over),
        cmocka_unit_test(written_anew_it_has_what_holds),
        cmocka_unit_test(written_anew_it_has_what_the_caller_keeps),
        cmocka_unit_test(a_kill_while_it_is_written_anew_leaves_the_old_one),
        cmocka_unit_test(a_table_is_as_large_as_what_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
