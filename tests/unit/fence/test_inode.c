#include "fence_fixture.h"

static const char *const all[] = { "/**=write", NULL };

static void numbers_come_from_names(void **state)
{
    (void) state;
    assert_int_equal(inode_number_of(1, "a", 1), inode_number_of(1, "a", 1));
    assert_int_not_equal(inode_number_of(1, "a", 1), inode_number_of(2, "a", 1));
    assert_int_not_equal(inode_number_of(1, "a", 1), inode_number_of(1, "b", 1));
    assert_int_not_equal(inode_number_of(1, "12345678", 8), inode_number_of(1, "12345678\0", 9));
}

static void a_number_stays_through_copy_up_forget_and_remount(void **state)
{
    struct fixture x;
    struct stat before = { 0 }, after = { 0 };

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/d");
    put_file(&x, "base/d/f", "text");
    fixture_open(&x, all, 0);
    struct inode *f = walk(&x, "d/f", &before);
    assert_int_equal(write_text(&x, f, "T", 0), 1);
    walk(&x, "d/f", &after);
    assert_int_equal(before.st_ino, after.st_ino);
    inode_forget(x.fence, f, 2);
    walk(&x, "d/f", &after);
    assert_int_equal(before.st_ino, after.st_ino);
    fixture_close(&x);
    fixture_open(&x, all, 0);
    assert_content(&x, walk(&x, "d/f", &after), "Text");
    assert_int_equal(before.st_ino, after.st_ino);
    fixture_done(&x);
}

static void a_new_file_never_has_the_number_of_one_renamed_away(void **state)
{
    struct fixture x;
    struct stat moved = { 0 };
    struct entry_answer answer;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/a", "a");
    fixture_open(&x, all, 0);
    walk(&x, "a", NULL);
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "a", x.fence->root, "b", 0), 0);
    assert_int_equal(op_mknod(x.fence, &nobody, x.fence->root, "a", S_IFREG | 0600, &answer), 0);
    walk(&x, "b", &moved);
    assert_int_not_equal(moved.st_ino, answer.st.st_ino);
    fixture_done(&x);
}

static void forgotten_inodes_leave_memory(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/d");
    put_dir(&x, "base/d/e");
    put_file(&x, "base/d/e/f", "");
    fixture_open(&x, all, 0);
    uint64_t before = x.fence->nodes.count;
    struct inode *d = walk(&x, "d", NULL), *e = walk(&x, "d/e", NULL), *f = walk(&x, "d/e/f", NULL);
    assert_int_equal(x.fence->nodes.count, before + 3);
    inode_forget(x.fence, d, 3);
    inode_forget(x.fence, e, 2);
    assert_int_equal(x.fence->nodes.count, before + 3);
    inode_forget(x.fence, f, 1);
    assert_int_equal(x.fence->nodes.count, before);
    fixture_done(&x);
}

static void set_mode_of(struct fixture *x, struct inode *inode, mode_t mode)
{
    struct stat to = { .st_mode = mode };
    struct entry_answer answer;

    assert_int_equal(op_setattr(x->fence, &nobody, inode, &to, SETATTR_MODE, &answer), 0);
}

static void the_ctime_of_a_directory_stays_when_it_is_forgotten(void **state)
{
    struct fixture x;
    struct stat before, changed, again;

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/d");
    fixture_open(&x, all, 0);
    uint64_t count = x.fence->nodes.count;
    struct inode *d = walk(&x, "d", &before);
    set_mode_of(&x, d, 0700);
    walk(&x, "d", &changed);
    assert_true(changed.st_ctim.tv_sec > before.st_ctim.tv_sec || changed.st_ctim.tv_nsec != before.st_ctim.tv_nsec);
    assert_memory_equal(&changed.st_mtim, &before.st_mtim, sizeof(before.st_mtim));
    inode_forget(x.fence, d, 2);
    walk(&x, "d", &again);
    assert_memory_equal(&again.st_ctim, &changed.st_ctim, sizeof(again.st_ctim));
    /* Nothing keeps a removed one in memory. */
    d = walk(&x, "d", NULL);
    assert_int_equal(op_rmdir(x.fence, &nobody, x.fence->root, "d"), 0);
    inode_forget(x.fence, d, 2);
    assert_int_equal(x.fence->nodes.count, count);
    fixture_done(&x);
}

static void a_forget_of_too_many_is_no_disaster(void **state)
{
    struct fixture x;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/f", "");
    fixture_open(&x, all, 0);
    inode_forget(x.fence, walk(&x, "f", NULL), 1000);
    assert_non_null(walk(&x, "f", NULL));
    fixture_done(&x);
}

static void node_ids_are_found_among_many(void **state)
{
    struct fixture x;
    struct entry_answer answer;
    struct inode *inodes[500];

    (void) state;
    fixture_init(&x);
    fixture_open(&x, all, 0);
    for (int i = 0; i < 500; i++) {
        autofree char *name = xprintf("f%d", i);
        assert_int_equal(op_mknod(x.fence, &nobody, x.fence->root, name, S_IFREG | 0600, &answer), 0);
        inodes[i] = answer.inode;
    }
    for (int i = 0; i < 500; i += 2) {
        uint64_t node = inodes[i]->node;
        inode_forget(x.fence, inodes[i], 1);
        assert_null(inode_by_node(x.fence, node));
    }
    for (int i = 1; i < 500; i += 2)
        assert_ptr_equal(inode_by_node(x.fence, inodes[i]->node), inodes[i]);
    fixture_done(&x);
}

static void hard_links_meet_again_after_a_remount(void **state)
{
    struct fixture x;
    struct stat a = { 0 }, b = { 0 };
    struct entry_answer answer;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/a", "a");
    fixture_open(&x, all, 0);
    assert_int_equal(op_link(x.fence, &nobody, walk(&x, "a", NULL), x.fence->root, "b", &answer), 0);
    assert_int_equal(answer.st.st_nlink, 2);
    fixture_close(&x);
    fixture_open(&x, all, 0);
    struct inode *one = walk(&x, "a", &a), *other = walk(&x, "b", &b);
    assert_ptr_equal(one, other);
    assert_int_equal(a.st_ino, b.st_ino);
    assert_int_equal(b.st_nlink, 2);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "a"), 0);
    walk(&x, "b", &b);
    assert_int_equal(b.st_nlink, 1);
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_from_names),
        cmocka_unit_test(a_number_stays_through_copy_up_forget_and_remount),
        cmocka_unit_test(a_new_file_never_has_the_number_of_one_renamed_away),
        cmocka_unit_test(forgotten_inodes_leave_memory),
        cmocka_unit_test(the_ctime_of_a_directory_stays_when_it_is_forgotten),
        cmocka_unit_test(a_forget_of_too_many_is_no_disaster),
        cmocka_unit_test(node_ids_are_found_among_many),
        cmocka_unit_test(hard_links_meet_again_after_a_remount),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
