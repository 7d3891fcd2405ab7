#include "fixture.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/path_set.h"

static struct path_set set_of(const char *const *paths, size_t count)
{
    struct path_set set = PATH_SET_EMPTY;

    for (size_t i = 0; i < count; i++)
        path_set_add(&set, paths[i], i);
    path_set_sort(&set);
    return set;
}

static const char *path_of(const struct path_set_item *item)
{
    return item ? item->path : "";
}

static void nothing_is_in_an_empty_set(void **state)
{
    struct path_set set = PATH_SET_EMPTY;

    (void) state;
    path_set_sort(&set);
    assert_null(path_set_at(&set, "/"));
    assert_null(path_set_at_or_above(&set, "/a/b"));
    assert_null(path_set_above(&set, "/"));
    assert_false(path_set_has_beneath(&set, "/"));
    path_set_done(&set);
}

static void one_that_is_added_again_is_one(void **state)
{
    static const char *const paths[] = { "/b", "/a", "/b", "/b" };
    struct path_set set = set_of(paths, ARRAY_LEN(paths));

    (void) state;
    assert_int_equal(set.count, 2);
    assert_int_equal(path_set_at(&set, "/b")->count, 3);
    assert_int_equal(path_set_at(&set, "/b")->tag, 0);
    assert_int_equal(path_set_at(&set, "/a")->tag, 1);
    path_set_insert(&set, "/a");
    assert_int_equal(path_set_at(&set, "/a")->count, 2);
    path_set_done(&set);
}

static void those_above_come_nearest_first(void **state)
{
    static const char *const paths[] = { "/", "/a", "/a/b", "/a-b", "/a/b/c/d", "/a.txt" };
    struct path_set set = set_of(paths, ARRAY_LEN(paths));

    (void) state;
    assert_string_equal(path_of(path_set_at_or_above(&set, "/a/b/c")), "/a/b");
    assert_string_equal(path_of(path_set_above(&set, "/a/b")), "/a");
    assert_string_equal(path_of(path_set_above(&set, "/a")), "/");
    assert_null(path_set_above(&set, "/"));
    assert_string_equal(path_of(path_set_at_or_above(&set, "/ab")), "/");
    assert_string_equal(path_of(path_set_at(&set, "/a.txt")), "/a.txt");
    assert_null(path_set_at(&set, "/a."));
    path_set_done(&set);
}

/* Against what path_is_beneath() says of each pair, with names that sort before and behind a slash. */
static void it_answers_as_looking_at_each_would(void **state)
{
    static const char *const names[] = {
        "", "/a", "/a/b", "/a-b", "/a/b/c", "/a/b-", "/a0", "/a/", "/b", "/\xff/a", "/a/b/c/d"
    };
    autodone(buf) struct buf path = BUF_EMPTY;
    const char *all[ARRAY_LEN(names)];
    char clean[ARRAY_LEN(names)][32];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_int_equal(path_clean(*names[i] ? names[i] : "/", *names[i] ? strlen(names[i]) : 1, &path), 0);
        snprintf(clean[i], sizeof(clean[i]), "%s", path.data);
        all[i] = clean[i];
    }
    for (unsigned chosen = 0; chosen < 1U << ARRAY_LEN(names); chosen++) {
        struct path_set set = PATH_SET_EMPTY, inserted = PATH_SET_EMPTY;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            if (!(chosen & 1U << i))
                continue;
            path_set_add(&set, all[i], i);
            path_set_insert(&inserted, all[i]);
        }
        path_set_sort(&set);
        assert_int_equal(set.count, inserted.count);
        for (size_t i = 0; i < set.count; i++)
            assert_string_equal(set.items[i].path, inserted.items[i].path);
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            bool is_above = false, is_beneath = false;
            for (size_t i = 0; i < set.count; i++) {
                is_above |= path_is_beneath(set.items[i].path, all[k]);
                is_beneath |= strcmp(set.items[i].path, all[k]) != 0 && path_is_beneath(all[k], set.items[i].path);
            }
            assert_int_equal(path_set_at_or_above(&set, all[k]) != NULL, is_above);
            assert_int_equal(path_set_has_beneath(&set, all[k]), is_beneath);
        }
        path_set_done(&set);
        path_set_done(&inserted);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_in_an_empty_set),
        cmocka_unit_test(one_that_is_added_again_is_one),
        cmocka_unit_test(those_above_come_nearest_first),
        cmocka_unit_test(it_answers_as_looking_at_each_would),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
