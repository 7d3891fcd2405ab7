#include "fence_fixture.h"

#include "fence/guard.h"

static void the_wall_stands_whatever_the_mode_bits_say(void **state)
{
    struct fixture x;
    const char *const rules[] = { "/**=read", "/v=view", "/n=none", "/w=write", NULL };
    char bytes[8];
    struct entry_answer answer;

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/v", "view");
    put_file(&x, "base/r", "read");
    put_file(&x, "base/n", "none");
    put_file(&x, "base/w", "write");
    fixture_open(&x, rules, 0);
    assert_null(walk(&x, "n", NULL));
    assert_int_equal(op_read(x.fence, &nobody, walk(&x, "v", NULL), bytes, 8, 0), -EACCES);
    assert_int_equal(write_text(&x, walk(&x, "v", NULL), "x", 0), -EACCES);
    assert_content(&x, walk(&x, "r", NULL), "read");
    assert_int_equal(write_text(&x, walk(&x, "r", NULL), "x", 0), -EACCES);
    assert_int_equal(op_setattr(x.fence, &nobody, walk(&x, "r", NULL), &(struct stat){ 0 }, SETATTR_SIZE, &answer), -EACCES);
    assert_int_equal(write_text(&x, walk(&x, "w", NULL), "W", 0), 1);
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "n"), -ENOENT);
    assert_int_equal(op_mknod(x.fence, &nobody, x.fence->root, "n", S_IFREG | 0600, &answer), -EACCES);
    assert_int_equal(op_mkdir(x.fence, &nobody, x.fence->root, "n", 0700, &answer), -EACCES);
    assert_int_equal(op_mknod(x.fence, &nobody, x.fence->root, ".wh.x", S_IFREG | 0600, &answer), -EPERM);
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "w", x.fence->root, "n", 0), -EACCES);
    assert_int_equal(op_rename(x.fence, &nobody, x.fence->root, "r", x.fence->root, "w", 0), -EACCES);
    fixture_done(&x);
}

static void new_rules_hold_at_once(void **state)
{
    struct fixture x;
    const char *const rules[] = { "/**=write", NULL };
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;
    autoptr(ruleset) tighter = NULL;
    char bytes[8];

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/f", "text");
    fixture_open(&x, rules, 0);
    struct inode *f = walk(&x, "f", NULL);
    assert_content(&x, f, "text");
    assert_int_equal(rule_list_add_short(&list, "/f=view", NULL), 0);
    assert_int_equal(ruleset_new(&list, NULL, &tighter, NULL), 0);
    assert_int_equal(fence_set_rules(x.fence, tighter), 0);
    assert_int_equal(op_read(x.fence, &nobody, f, bytes, 8, 0), -EACCES);
    fixture_done(&x);
}

/* It is not used; its presence means that the kernel reads without asking. */
static void rules_are_not_changed_where_files_are_read_past_us(void **state)
{
    struct fixture x;
    const char *const rules[] = { "/**=read", NULL };
    autoptr(ruleset) none = NULL;
    char bytes[8];

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/f", "text");
    fixture_open(&x, rules, 0);
    struct inode *f = walk(&x, "f", NULL);
    assert_int_equal(ruleset_new(&RULE_LIST_EMPTY, NULL, &none, NULL), 0);
    x.fence->passthrough = (struct passthrough *) &x;
    assert_int_equal(fence_set_rules(x.fence, none), -EOPNOTSUPP);
    x.fence->passthrough = NULL;
    assert_int_equal(op_read(x.fence, &nobody, f, bytes, 8, 0), 4);
    assert_int_equal(fence_set_rules(x.fence, none), 0);
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wall_stands_whatever_the_mode_bits_say),
        cmocka_unit_test(new_rules_hold_at_once),
        cmocka_unit_test(rules_are_not_changed_where_files_are_read_past_us),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
