#include "fence_fixture.h"

#include "fence/journal.h"

static void an_intent_comes_back_as_it_was(void **state)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct intent in = { "a/b", "c\xff", true, false, true }, out;

    (void) state;
    intent_write(&in, &bytes);
    assert_int_equal(intent_parse(bytes.data, bytes.len, &out), 0);
    assert_string_equal(out.from, "a/b");
    assert_string_equal(out.to, "c\xff");
    assert_true(out.whiteout_from && !out.revert_marker && out.clear_to);
}

static void a_torn_intent_is_none(void **state)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct intent in = { "from", "to", true, true, false }, out;

    (void) state;
    intent_write(&in, &bytes);
    for (size_t len = 0; len < bytes.len; len++)
        assert_int_equal(intent_parse(bytes.data, len, &out), -EBADMSG);
    for (size_t i = 0; i < bytes.len; i++) {
        bytes.data[i] ^= 1;
        assert_int_equal(intent_parse(bytes.data, bytes.len, &out), -EBADMSG);
        bytes.data[i] ^= 1;
    }
}

/* Writes an intent into the delta as a process that died would have left it, after `steps` of its steps. */
static void leave_intent(struct fixture *x, unsigned steps)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct intent in = { "old", "new", true, true, false };

    fixture_close(x);
    put_file(x, "delta/data/old", "moved");
    put_file(x, "delta/data/.wh.new", "");
    if (steps >= 1)
        put_file(x, "delta/data/.wh.old", "");
    if (steps >= 2)
        assert_int_equal(renameat(x->fd, "delta/data/old", x->fd, "delta/data/new"), 0);
    if (steps >= 3)
        assert_int_equal(unlinkat(x->fd, "delta/data/.wh.new", 0), 0);
    intent_write(&in, &bytes);
    autofd int fd = openat(x->fd, "delta/meta/journal", O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, bytes.data, bytes.len), bytes.len);
}

static void what_was_begun_is_finished_at_mount(void **state)
{
    const char *const rules[] = { "/**=write", NULL };

    (void) state;
    for (unsigned steps = 0; steps <= 3; steps++) {
        struct fixture x;
        fixture_init(&x);
        put_file(&x, "base/old", "base");
        fixture_open(&x, rules, 0);
        leave_intent(&x, steps);
        fixture_open(&x, rules, 0);
        assert_null(walk(&x, "old", NULL));
        struct inode *now = walk(&x, "new", NULL);
        assert_non_null(now);
        assert_content(&x, now, "moved");
        assert_false(is_there(&x, "delta/data/.wh.new"));
        assert_true(is_there(&x, "delta/data/.wh.old"));
        fixture_done(&x);
    }
}

static void a_marker_wins_over_the_file_beside_it(void **state)
{
    struct fixture x;
    const char *const rules[] = { "/**=write", NULL };

    (void) state;
    fixture_init(&x);
    put_file(&x, "base/f", "base");
    fixture_open(&x, rules, 0);
    fixture_close(&x);
    put_file(&x, "delta/data/f", "half made");
    put_file(&x, "delta/data/.wh.f", "");
    fixture_open(&x, rules, 0);
    assert_null(walk(&x, "f", NULL));
    assert_false(is_there(&x, "delta/data/f"));
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_intent_comes_back_as_it_was),
        cmocka_unit_test(a_torn_intent_is_none),
        cmocka_unit_test(what_was_begun_is_finished_at_mount),
        cmocka_unit_test(a_marker_wins_over_the_file_beside_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
