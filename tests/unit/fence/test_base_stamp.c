#include "fence_fixture.h"

#include "base/clock.h"
#include "fence/base_stamp.h"

static struct stat old_file(void)
{
    return (struct stat){
        .st_dev = 1, .st_ino = 7, .st_mode = S_IFREG | 0644, .st_size = 5, .st_mtim = { 100, 1 }, .st_ctim = { 100, 2 }
    };
}

static void what_did_not_change_is_the_same(void **state)
{
    struct stat st = old_file();
    uint64_t seen = base_stamp_of(&st);

    (void) state;
    assert_int_equal(base_stamp_differs(seen, &st), 0);
    /* Owner, mode and link count come from a fresh stat. */
    st.st_mode |= 0111;
    st.st_nlink = 9;
    assert_int_equal(base_stamp_differs(seen, &st), 0);
}

static void another_file_is_told_from_other_content(void **state)
{
    struct stat st = old_file();
    uint64_t seen = base_stamp_of(&st);

    (void) state;
    st.st_ino++;
    assert_int_equal(base_stamp_differs(seen, &st), BASE_STAMP_OTHER_FILE);
    st = old_file();
    st.st_size++;
    assert_int_equal(base_stamp_differs(seen, &st), BASE_STAMP_OTHER_CONTENT);
    st = old_file();
    st.st_mtim.tv_nsec++;
    assert_int_equal(base_stamp_differs(seen, &st), BASE_STAMP_OTHER_CONTENT);
    st = old_file();
    st.st_ctim.tv_nsec++;
    assert_int_equal(base_stamp_differs(seen, &st), BASE_STAMP_OTHER_CONTENT);
    st = old_file();
    st.st_mode = S_IFLNK | 0777;
    assert_true(base_stamp_differs(seen, &st) & BASE_STAMP_OTHER_FILE);
}

static void what_changed_just_now_may_have_changed_again(void **state)
{
    struct stat st = old_file();

    (void) state;
    st.st_ctim = clock_timespec_of_ns(clock_wall_ns());
    assert_int_equal(base_stamp_differs(base_stamp_of(&st), &st), BASE_STAMP_UNSETTLED);
    assert_false(base_stamp_is_settled(base_stamp_of(&st)));
    st = old_file();
    assert_true(base_stamp_is_settled(base_stamp_of(&st)));
}

static void what_was_never_seen_is_taken_for_the_same_file(void **state)
{
    struct stat st = old_file();

    (void) state;
    assert_int_equal(base_stamp_differs(0, &st), BASE_STAMP_OTHER_CONTENT | BASE_STAMP_UNSETTLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_did_not_change_is_the_same),
        cmocka_unit_test(another_file_is_told_from_other_content),
        cmocka_unit_test(what_changed_just_now_may_have_changed_again),
        cmocka_unit_test(what_was_never_seen_is_taken_for_the_same_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
