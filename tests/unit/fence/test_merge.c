#include "fence_fixture.h"

#include "fence/merge.h"

static void names_that_meet_keep_apart(void **state)
{
    struct dir_listing_item items[] = {
        { .cookie = 7, .name = "b" }, { .cookie = 7, .name = "a" }, { .cookie = 8, .name = "c" }, { .cookie = 2, .name = "d" }
    };
    struct dir_listing listing = { .count = 4, .items = items };

    (void) state;
    dir_listing_sort(&listing);
    assert_string_equal(items[0].name, "d");
    assert_string_equal(items[1].name, "a");
    assert_string_equal(items[2].name, "b");
    assert_string_equal(items[3].name, "c");
    assert_int_equal(items[0].cookie, 3);
    assert_int_equal(items[1].cookie, 7);
    assert_int_equal(items[2].cookie, 8);
    assert_int_equal(items[3].cookie, 9);
    assert_int_equal(dir_listing_after(&listing, 0), 0);
    assert_int_equal(dir_listing_after(&listing, 7), 2);
    assert_int_equal(dir_listing_after(&listing, 9), 4);
}

static uint64_t cookie_of(struct fixture *x, const char *name)
{
    struct dir_listing *listing;
    uint64_t cookie = 0;

    assert_int_equal(merge_list(x->fence, x->fence->root, false, &listing), 0);
    for (size_t i = 0; i < listing->count; i++) {
        assert_true(listing->items[i].cookie > COOKIE_DOTDOT && listing->items[i].cookie < 1ULL << 63);
        if (strcmp(listing->items[i].name, name) == 0)
            cookie = listing->items[i].cookie;
    }
    dir_listing_unref(listing);
    return cookie;
}

static void a_position_depends_on_the_name_alone(void **state)
{
    struct fixture x;
    const char *const rules[] = { "/**=write", "/hidden*=none", NULL };
    struct entry_answer answer;
    uint64_t cookie;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/seen", "");
    fixture_open(&x, rules, 0);
    cookie = cookie_of(&x, "seen");
    fixture_close(&x);
    for (int i = 0; i < 50; i++) {
        autofree char *name = xprintf("base/hidden%d", i);
        put_file(&x, name, "");
    }
    fixture_open(&x, rules, 0);
    assert_int_equal(cookie_of(&x, "seen"), cookie);
    assert_int_equal(cookie_of(&x, "hidden1"), 0);
    assert_int_equal(op_mknod(x.fence, &nobody, x.fence->root, "other", S_IFREG | 0644, &answer), 0);
    assert_int_equal(cookie_of(&x, "seen"), cookie);
    fixture_done(&x);
}

static size_t count(struct fixture *x, const char *path)
{
    struct dir_listing *listing;
    size_t n;

    assert_int_equal(merge_list(x->fence, walk(x, path, NULL), false, &listing), 0);
    n = listing->count;
    dir_listing_unref(listing);
    return n;
}

static void both_layers_are_one_listing(void **state)
{
    struct fixture x;
    const char *const rules[] = { "/**=write", NULL };
    struct entry_answer answer;

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/d");
    put_file(&x, "base/d/a", "");
    put_file(&x, "base/d/b", "");
    put_file(&x, "base/d/.wh.c", "");
    fixture_open(&x, rules, 0);
    struct inode *d = walk(&x, "d", NULL);
    assert_int_equal(count(&x, "d"), 2);
    assert_int_equal(op_mknod(x.fence, &nobody, d, "c", S_IFREG | 0644, &answer), 0);
    assert_int_equal(count(&x, "d"), 3);
    assert_int_equal(op_unlink(x.fence, &nobody, d, "a"), 0);
    assert_int_equal(write_text(&x, walk(&x, "d/b", NULL), "x", 0), 1);
    assert_int_equal(count(&x, "d"), 2);
    fixture_close(&x);
    fixture_open(&x, rules, 0);
    assert_int_equal(count(&x, "d"), 2);
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_meet_keep_apart),
        cmocka_unit_test(a_position_depends_on_the_name_alone),
        cmocka_unit_test(both_layers_are_one_listing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
