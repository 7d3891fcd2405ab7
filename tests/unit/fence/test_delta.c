#include "fence_fixture.h"

#include <sys/resource.h>

#include "fence/change.h"
#include "fence/delta.h"

static const char *const all[] = { "/**=write", NULL };

/* In the order in which they are made: a killed process leaves the first few. */
static const char *const parts[] = { "delta", "delta/meta", "delta/meta/pre", "delta/work", "delta/data" };

static void one_half_made_is_taken_up_again(void **state)
{
    (void) state;
    for (size_t count = 0; count <= ARRAY_LEN(parts); count++) {
        struct fixture x;

        fixture_init(&x);
        for (size_t i = 0; i < count; i++)
            put_dir(&x, parts[i]);
        if (count == ARRAY_LEN(parts)) {
            put_file(&x, "delta/meta/base", "half of wh");
            put_file(&x, "delta/meta/.af-tmp-x", "agentf");
        }
        fixture_open(&x, all, 0);
        assert_true(is_there(&x, "delta/meta/format"));
        fixture_close(&x);
        fixture_open(&x, all, 0);
        fixture_done(&x);
    }
}

static int open_over(struct fixture *x, struct err *err)
{
    autofree char *base = xprintf("%s/base", x->dir), *delta = xprintf("%s/delta", x->dir);
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;
    autoptr(ruleset) set = NULL;

    assert_int_equal(ruleset_new(&list, NULL, &set, err), 0);
    struct fence_config config = { .base_path = base, .delta_path = delta, .rules = set };
    return fence_new(&config, &x->fence, err);
}

/* Opens the base by a descriptor, as supervisors do, or checks it for the delta alone. */
static int open_bound(struct fixture *x, const char *dir, struct err *err)
{
    autofree char *base = xprintf("%s/base", x->dir), *delta = xprintf("%s/delta", x->dir);
    autofd int fd = openat(x->fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct fence_config config = { .base_path = base, .base_fd = fd, .delta_path = delta, .is_at_rest = true };

    return fence_recover_delta(&config, err);
}

static int look(struct fixture *x, struct err *err)
{
    autofree char *delta = xprintf("%s/delta", x->dir);
    struct delta_info about = DELTA_INFO_NONE;
    int r = delta_info_open(delta, &about, err);
    autofd int fd = r < 0 ? r : delta_info_open_base(&about, O_PATH, err);

    delta_info_done(&about);
    return fd < 0 ? fd : 0;
}

static void exchange(struct fixture *x)
{
    assert_int_equal(renameat2(x->fd, "base", x->fd, "other", RENAME_EXCHANGE), 0);
}

static void assert_refused(int r, const struct err *err)
{
    assert_int_equal(r, -EXDEV);
    assert_int_equal(err->code, ERR_FAILED_PRECONDITION);
    assert_string_equal(err->reason, "BASE_REPLACED");
}

static void one_is_for_the_directory_that_it_was_made_over(void **state)
{
    struct err err = ERR_NONE;
    struct fixture x;

    (void) state;
    fixture_init(&x);
    put_dir(&x, "other");
    assert_int_equal(open_bound(&x, "base", &err), 0);
    assert_int_equal(look(&x, &err), 0);
    assert_refused(open_bound(&x, "other", &err), &err);
    exchange(&x);
    assert_refused(look(&x, &err), &err);
    err = ERR_NONE;
    assert_refused(open_over(&x, &err), &err);
    err = ERR_NONE;
    assert_int_equal(open_bound(&x, "other", &err), 0); /* the path of the right one, opened by a descriptor */
    exchange(&x);
    assert_int_equal(look(&x, &err), 0);
    fixture_done(&x);
}

static void one_without_a_record_gets_it_by_the_first_descriptor(void **state)
{
    struct err err = ERR_NONE;
    struct fixture x;

    (void) state;
    fixture_init(&x);
    put_dir(&x, "other");
    assert_int_equal(open_over(&x, &err), 0);
    fixture_close(&x);
    exchange(&x);
    assert_int_equal(look(&x, &err), 0); /* its name is enough */
    exchange(&x);
    assert_int_equal(open_bound(&x, "base", &err), 0);
    exchange(&x);
    assert_refused(look(&x, &err), &err);
    exchange(&x);
    assert_int_equal(look(&x, &err), 0);
    fixture_done(&x);
}

static void what_holds_something_else_is_no_delta(void **state)
{
    static const char *const strangers[] = { "delta/mine", "delta/data/mine", "delta/work/mine" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++) {
        struct err err = ERR_NONE;
        struct fixture x;

        fixture_init(&x);
        for (size_t j = 0; j < ARRAY_LEN(parts); j++)
            put_dir(&x, parts[j]);
        put_file(&x, strangers[i], "kept");
        assert_int_equal(open_over(&x, &err), -ENOTEMPTY);
        assert_non_null(strstr(err.text, "is not empty and was not made by agentfense"));
        assert_true(is_there(&x, strangers[i]) && !is_there(&x, "delta/meta/format"));
        fixture_done(&x);
    }
}

/* A base that cannot be read counts as the same. */
static void without_descriptors_it_is_not_taken_for_another_s(void **state)
{
    struct rlimit old, small;
    struct err err = ERR_NONE;
    struct fixture x;
    int r = -EMFILE, lowest, refusals = 0;

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all, 0);
    fixture_close(&x);
    autofree char *delta = xprintf("%s/delta", x.dir);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    small = old;
    lowest = dup(STDERR_FILENO);
    close(lowest);
    for (int more = 0; r < 0 && more < 100; more++) {
        small.rlim_cur = (rlim_t) (lowest + more);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
        r = change_recover(delta, &err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_true(r == 0 || r == -EMFILE);
        refusals += r < 0;
    }
    assert_true(r == 0 && refusals > 1);
    fixture_done(&x);
}

/* Reading changes may happen in a server with many threads. */
static void settling_changes_nothing_of_the_process(void **state)
{
    struct err err = ERR_NONE;
    struct fixture x;
    mode_t mask = umask(027);

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/d");
    fixture_open(&x, (const char *const[]){ "/**=write", NULL }, 0);
    fixture_close(&x);
    put_file(&x, "delta/meta/journal", "torn");
    umask(027);
    autofree char *delta = xprintf("%s/delta", x.dir);
    assert_int_equal(change_recover(delta, &err), 0);
    assert_int_equal(umask(mask), 027);
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_half_made_is_taken_up_again),
        cmocka_unit_test(one_is_for_the_directory_that_it_was_made_over),
        cmocka_unit_test(one_without_a_record_gets_it_by_the_first_descriptor),
        cmocka_unit_test(settling_changes_nothing_of_the_process),
        cmocka_unit_test(what_holds_something_else_is_no_delta),
        cmocka_unit_test(without_descriptors_it_is_not_taken_for_another_s),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
