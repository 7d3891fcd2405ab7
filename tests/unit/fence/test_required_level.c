#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "policy/required_level.h"

static void a_hidden_path_does_not_exist(void **state)
{
    (void) state;
    for (enum policy_op op = 0; op < POLICY_OPS; op++) {
        int r = required_level_check(op, LEVEL_NONE, false);
        if (op == POLICY_OP_STATFS)
            assert_int_equal(r, 0);
        else
            assert_int_equal(r, op >= POLICY_OP_MKNOD ? -EACCES : -ENOENT);
    }
}

static void view_shows_and_gives_nothing(void **state)
{
    (void) state;
    assert_int_equal(required_level_check(POLICY_OP_LOOKUP, LEVEL_VIEW, false), 0);
    assert_int_equal(required_level_check(POLICY_OP_STAT, LEVEL_VIEW, false), 0);
    assert_int_equal(required_level_check(POLICY_OP_LIST, LEVEL_VIEW, false), 0);
    assert_int_equal(required_level_check(POLICY_OP_READ, LEVEL_VIEW, false), -EACCES);
    assert_int_equal(required_level_check(POLICY_OP_READLINK, LEVEL_VIEW, false), -EACCES);
    assert_int_equal(required_level_check(POLICY_OP_GETXATTR, LEVEL_VIEW, false), -EACCES);
    assert_int_equal(required_level_check(POLICY_OP_UNLINK, LEVEL_VIEW, false), -EACCES);
}

static void read_gives_and_takes_nothing(void **state)
{
    (void) state;
    assert_int_equal(required_level_check(POLICY_OP_READ, LEVEL_READ, false), 0);
    for (enum policy_op op = POLICY_OP_WRITE; op < POLICY_OP_STATFS; op++)
        assert_int_equal(required_level_check(op, LEVEL_READ, false), -EACCES);
}

static void write_is_enough_for_everything(void **state)
{
    (void) state;
    for (enum policy_op op = 0; op < POLICY_OPS; op++)
        assert_int_equal(required_level_check(op, LEVEL_WRITE, false), 0);
}

static void a_passage_can_be_walked_through_and_no_more(void **state)
{
    (void) state;
    assert_int_equal(required_level_check(POLICY_OP_LOOKUP, LEVEL_NONE, true), 0);
    assert_int_equal(required_level_check(POLICY_OP_STAT, LEVEL_NONE, true), 0);
    assert_int_equal(required_level_check(POLICY_OP_LIST, LEVEL_NONE, true), 0);
    assert_int_equal(required_level_check(POLICY_OP_SETATTR, LEVEL_NONE, true), -EACCES);
    assert_int_equal(required_level_check(POLICY_OP_RMDIR, LEVEL_NONE, true), -EACCES);
    assert_int_equal(required_level_check(POLICY_OP_RENAME_FROM, LEVEL_NONE, true), -EACCES);
}

static void every_operation_has_a_name(void **state)
{
    (void) state;
    for (enum policy_op op = 0; op < POLICY_OPS; op++)
        assert_non_null(policy_op_name(op));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hidden_path_does_not_exist),
        cmocka_unit_test(view_shows_and_gives_nothing),
        cmocka_unit_test(read_gives_and_takes_nothing),
        cmocka_unit_test(write_is_enough_for_everything),
        cmocka_unit_test(a_passage_can_be_walked_through_and_no_more),
        cmocka_unit_test(every_operation_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
