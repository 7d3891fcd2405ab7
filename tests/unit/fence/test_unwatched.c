#include "fence_fixture.h"

#include "fence/readdirplus.h"
#include "fence/unwatched.h"

/* Without a mount no pages are dropped: the tests check what an answer contains, and that it would wait. */
static int setup(void **state)
{
    struct fixture *x = xnew(struct fixture);
    static const char *const rules[] = { "/**=write", "**/.env=none", NULL };

    fixture_init(x);
    put_dir(x, "base/d");
    put_file(x, "base/a", "old a");
    put_file(x, "base/d/b", "old b");
    fixture_open(x, rules, 0);
    x->fence->is_live = true;
    x->fence->poll = unwatched_poll_new(x->fence);
    unwatched_add(x->fence, x->fence->root);
    unwatched_add(x->fence, walk(x, "d", NULL));
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    fixture_done(*state);
    free(*state);
    return 0;
}

/* The next look-up of a directory compares it. */
static void let_time_pass(struct fixture *x, struct inode *dir)
{
    x->fence->root->dir->checked_ms = dir->dir->checked_ms = 0;
}

static struct entry_answer lookup(struct fixture *x, struct inode *dir, const char *name)
{
    struct entry_answer answer = { 0 };

    assert_int_equal(op_lookup(x->fence, &nobody, dir, name, &answer), 0);
    return answer;
}

static void replace_file(struct fixture *x, const char *path, const char *text)
{
    put_file(x, "base/temporary", text);
    assert_int_equal(renameat(x->fd, "base/temporary", x->fd, path), 0);
}

static void set_old(struct fixture *x, const char *path, long seconds)
{
    assert_int_equal(utimensat(x->fd, path, (struct timespec[]){ { seconds, 0 }, { seconds, 0 } }, 0), 0);
}

static void answers_hold_for_a_second_and_elsewhere_for_long(void **state)
{
    struct fixture *x = *state;
    struct inode *d = walk(x, "d", NULL);
    struct entry_answer in_d = lookup(x, d, "b"), none = lookup(x, d, "none"), attr = { 0 };

    assert_true(in_d.entry_timeout_s == 1.0 && in_d.attr_timeout_s == 1.0 && none.entry_timeout_s == 1.0);
    assert_int_equal(op_getattr(x->fence, &nobody, in_d.inode, &attr), 0);
    assert_true(attr.attr_timeout_s == 1.0);
    unwatched_remove(x->fence, d);
    in_d = lookup(x, d, "b");
    assert_true(in_d.entry_timeout_s > 1000 && in_d.attr_timeout_s > 1000);
    assert_true(lookup(x, x->fence->root, "a").entry_timeout_s == 1.0);
    /* Others cannot change what the delta has. */
    assert_int_equal(write_text(x, walk(x, "a", NULL), "X", 0), 1);
    assert_true(lookup(x, x->fence->root, "a").attr_timeout_s > 1000);
    unwatched_remove(x->fence, x->fence->root);
    assert_false(unwatched_any(x->fence));
}

static void a_replaced_name_is_another_inode_and_a_removed_one_is_gone(void **state)
{
    struct fixture *x = *state;
    struct inode *a = walk(x, "a", NULL), *b = walk(x, "d/b", NULL);

    assert_content(x, b, "old b");
    replace_file(x, "base/d/b", "new b");
    unlinkat(x->fd, "base/a", 0);
    assert_null(walk(x, "a", NULL));
    assert_ptr_not_equal(walk(x, "d/b", NULL), b);
    assert_content(x, walk(x, "d/b", NULL), "new b");
    assert_content(x, b, "old b");
    assert_true(inode_has(a, INODE_DEAD));
}

static void new_content_is_told_when_the_old_pages_are_gone(void **state)
{
    struct fixture *x = *state;
    struct inode *a = walk(x, "a", NULL);
    struct entry_answer answer = { 0 };

    set_old(x, "base/a", 1000);
    assert_false(lookup(x, x->fence->root, "a").is_stale); /* nobody has read it */
    assert_content(x, a, "old a");
    put_file(x, "base/a", "longer text");
    answer = lookup(x, x->fence->root, "a");
    assert_ptr_equal(answer.inode, a);
    assert_true(answer.is_stale);
    assert_int_equal(answer.st.st_size, 11);
    assert_int_equal(op_getattr(x->fence, &nobody, a, &answer), 0);
    assert_true(answer.is_stale);
    assert_content(x, a, "longer text");
}

static bool count_attrs(const char *name, uint64_t ino, uint8_t type, uint64_t cookie, const struct entry_answer *answer,
                        void *user)
{
    (void) ino;
    (void) cookie;
    if (strcmp(name, "a") == 0) {
        assert_int_equal(type, 8); /* DT_REG */
        *(bool *) user = answer->inode != NULL;
    }
    return true;
}

static void a_listing_tells_no_attributes_of_a_stale_file(void **state)
{
    struct fixture *x = *state;
    bool has_attrs = false;

    x->fence->readdirplus_left = READDIRPLUS_LISTINGS;
    assert_content(x, walk(x, "a", NULL), "old a");
    assert_int_equal(op_readdir(x->fence, &nobody, x->fence->root, 0, true, count_attrs, &has_attrs), 0);
    assert_true(has_attrs);
    put_file(x, "base/a", "longer text");
    assert_int_equal(op_readdir(x->fence, &nobody, x->fence->root, 0, true, count_attrs, &has_attrs), 0);
    assert_false(has_attrs);
}

static void times_of_a_directory_follow_visible_names_only(void **state)
{
    struct fixture *x = *state;
    struct inode *d = walk(x, "d", NULL);
    struct entry_answer before = lookup(x, x->fence->root, "d"), after;

    let_time_pass(x, d);
    before = lookup(x, x->fence->root, "d");
    put_file(x, "base/d/.env", "x");
    let_time_pass(x, d);
    after = lookup(x, x->fence->root, "d");
    assert_memory_equal(&before.st.st_mtim, &after.st.st_mtim, sizeof(struct timespec));
    /* Covering a name is no change of the base. */
    assert_int_equal(write_text(x, walk(x, "d/b", NULL), "X", 0), 1);
    unlinkat(x->fd, "base/d/.env", 0);
    let_time_pass(x, d);
    after = lookup(x, x->fence->root, "d");
    assert_memory_equal(&before.st.st_mtim, &after.st.st_mtim, sizeof(struct timespec));
    put_file(x, "base/d/c", "x");
    let_time_pass(x, d);
    after = lookup(x, x->fence->root, "d");
    assert_ptr_equal(after.inode, d);
    assert_memory_not_equal(&before.st.st_mtim, &after.st.st_mtim, sizeof(struct timespec));
}

static void a_directory_that_was_moved_away_shows_nothing(void **state)
{
    struct fixture *x = *state;
    struct inode *d = walk(x, "d", NULL);

    assert_non_null(lookup(x, d, "b").inode);
    assert_int_equal(renameat(x->fd, "base/d", x->fd, "base/.env"), 0);
    let_time_pass(x, d);
    struct entry_answer answer = { 0 };
    int r = op_lookup(x->fence, &nobody, d, "b", &answer);
    assert_true(r == -ENOENT || (r == 0 && !answer.inode));
}

static void a_write_goes_to_what_was_open_not_to_what_took_its_name(void **state)
{
    struct fixture *x = *state;
    struct inode *a = walk(x, "a", NULL);

    assert_content(x, a, "old a");
    replace_file(x, "base/a", "theirs");
    assert_int_equal(write_text(x, a, "MY", 0), 2);
    assert_content(x, a, "MYd a");
    assert_content(x, walk(x, "a", NULL), "theirs");
}

static void a_write_into_what_changed_in_place_keeps_the_change(void **state)
{
    struct fixture *x = *state;
    struct inode *a = walk(x, "a", NULL);

    assert_content(x, a, "old a");
    put_file(x, "base/a", "NEW A");
    assert_int_equal(write_text(x, a, "MY", 0), 2);
    assert_content(x, walk(x, "a", NULL), "MYW A");
}

static void what_is_made_where_a_file_of_the_base_vanished_is_another_file(void **state)
{
    struct fixture *x = *state;
    struct inode *a = walk(x, "a", NULL);
    struct entry_answer answer = { 0 };

    assert_content(x, a, "old a");
    unlinkat(x->fd, "base/a", 0);
    assert_int_equal(op_mknod(x->fence, &nobody, x->fence->root, "a", S_IFREG | 0644, &answer), 0);
    assert_ptr_not_equal(answer.inode, a);
    assert_true(inode_has(a, INODE_DEAD));
    assert_content(x, a, "old a");
    assert_int_equal(op_unlink(x->fence, &nobody, x->fence->root, "a"), 0);
    assert_int_equal(op_getattr(x->fence, &nobody, a, &answer), 0);
}

static void one_that_is_destroyed_is_counted_no_longer(void **state)
{
    struct fixture *x = *state;
    struct inode *d = walk(x, "d", NULL);
    uint32_t before = x->fence->unwatched_dirs;

    assert_int_equal(before, 2);
    inode_forget(x->fence, d, d->lookups);
    assert_int_equal(x->fence->unwatched_dirs, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_hold_for_a_second_and_elsewhere_for_long, setup, teardown),
        cmocka_unit_test_setup_teardown(a_replaced_name_is_another_inode_and_a_removed_one_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(new_content_is_told_when_the_old_pages_are_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_listing_tells_no_attributes_of_a_stale_file, setup, teardown),
        cmocka_unit_test_setup_teardown(times_of_a_directory_follow_visible_names_only, setup, teardown),
        cmocka_unit_test_setup_teardown(a_directory_that_was_moved_away_shows_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_write_goes_to_what_was_open_not_to_what_took_its_name, setup, teardown),
        cmocka_unit_test_setup_teardown(a_write_into_what_changed_in_place_keeps_the_change, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_made_where_a_file_of_the_base_vanished_is_another_file, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_destroyed_is_counted_no_longer, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
