#include "fence_fixture.h"

#include "fence/quota.h"

static void a_quota_says_no_at_its_limit(void **state)
{
    struct quota q = { 0 };

    (void) state;
    quota_init(&q, 100, 2);
    assert_int_equal(quota_take(&q, 60, 1), 0);
    assert_int_equal(quota_take(&q, 41, 0), -ENOSPC);
    assert_int_equal(quota_take(&q, 40, 1), 0);
    assert_int_equal(quota_take(&q, 0, 1), -ENOSPC);
    assert_int_equal(quota_take(&q, 1, 0), -ENOSPC);
    quota_give(&q, 100, 2);
    assert_int_equal(quota_take(&q, 100, 2), 0);
    quota_done(&q);
}

static void a_refusal_takes_nothing(void **state)
{
    struct quota q = { 0 };

    (void) state;
    quota_init(&q, 100, 1);
    assert_int_equal(quota_take(&q, 50, 2), -ENOSPC);
    assert_int_equal(quota_take(&q, 100, 1), 0);
    quota_done(&q);
}

static void giving_back_too_much_stops_at_zero(void **state)
{
    struct quota q = { 0 };
    uint64_t shown[4];

    (void) state;
    quota_init(&q, 4096 * 10, 10);
    quota_give(&q, 1000000, 1000);
    quota_show(&q, 4096, shown);
    assert_int_equal(shown[0], 10);
    assert_int_equal(shown[1], 10);
    assert_int_equal(shown[3], 10);
    quota_done(&q);
}

static void a_write_beyond_the_quota_is_refused_and_a_replacing_one_is_not(void **state)
{
    struct fixture x;
    const char *const rules[] = { "/**=write", NULL };
    struct entry_answer answer;
    static char block[64 << 10];

    (void) state;
    fixture_init(&x);
    fixture_open(&x, rules, 256 << 10);
    assert_int_equal(op_mknod(x.fence, &nobody, x.fence->root, "f", S_IFREG | 0644, &answer), 0);
    memset(block, 'x', sizeof(block));
    off_t at = 0;
    ssize_t n;
    while ((n = op_write(x.fence, &nobody, answer.inode, sizeof(block), at, write_from, block)) > 0)
        at += n;
    assert_int_equal(n, -ENOSPC);
    assert_true(at >= 128 << 10 && at <= 256 << 10);
    assert_int_equal(op_write(x.fence, &nobody, answer.inode, sizeof(block), 0, write_from, block), sizeof(block));
    assert_int_equal(op_unlink(x.fence, &nobody, x.fence->root, "f"), 0);
    inode_forget(x.fence, answer.inode, 1);
    assert_int_equal(op_mknod(x.fence, &nobody, x.fence->root, "g", S_IFREG | 0644, &answer), 0);
    assert_int_equal(op_write(x.fence, &nobody, answer.inode, sizeof(block), 0, write_from, block), sizeof(block));
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quota_says_no_at_its_limit),
        cmocka_unit_test(a_refusal_takes_nothing),
        cmocka_unit_test(giving_back_too_much_stops_at_zero),
        cmocka_unit_test(a_write_beyond_the_quota_is_refused_and_a_replacing_one_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
