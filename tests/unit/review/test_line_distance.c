#include "review/line_distance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "review/hunk.h"

#define LONG (3 * LINE_DISTANCE_EASY)

/* Lines with numbers; each `every`th has something more. */
static void add_lines(struct buf *out, size_t from, size_t count, size_t every)
{
    for (size_t i = from; i < from + count; i++)
        buf_addf(out, "%zu%s\n", i, every && i % every == 0 ? "x" : "");
}

static bool is_small(const struct buf *was, const struct buf *now)
{
    return line_distance_is_small(was->data ? was->data : "", was->len, now->data ? now->data : "", now->len);
}

static void short_texts_are_always_compared(void **state)
{
    autodone(buf) struct buf was = BUF_EMPTY, now = BUF_EMPTY, none = BUF_EMPTY;

    (void) state;
    add_lines(&was, 0, LINE_DISTANCE_EASY, 0);
    add_lines(&now, LINE_DISTANCE_EASY, LINE_DISTANCE_EASY, 0);
    assert_true(is_small(&was, &now));
    assert_true(is_small(&none, &now));
    assert_true(is_small(&none, &none));
}

static void long_texts_that_are_nearly_the_same(void **state)
{
    autodone(buf) struct buf was = BUF_EMPTY, now = BUF_EMPTY, grown = BUF_EMPTY, none = BUF_EMPTY;

    (void) state;
    add_lines(&was, 0, LONG, 0);
    add_lines(&now, 0, LONG, 1000);
    assert_true(is_small(&was, &now));
    assert_true(is_small(&now, &was));
    add_lines(&grown, 0, 2 * LONG, 0);
    assert_true(is_small(&was, &grown));
    assert_true(is_small(&none, &grown));
    assert_true(is_small(&was, &was));
}

static void long_texts_with_little_in_common_are_not(void **state)
{
    autodone(buf) struct buf was = BUF_EMPTY, now = BUF_EMPTY, turned = BUF_EMPTY;
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY;
    struct err err = ERR_NONE;
    size_t added, removed;

    (void) state;
    add_lines(&was, 0, LONG, 0);
    add_lines(&now, 0, LONG, 10);
    assert_false(is_small(&was, &now));
    for (size_t i = LONG; i > 0; i--)
        buf_addf(&turned, "%zu\n", i);
    assert_false(is_small(&was, &turned));
    assert_int_equal(hunk_list_make(was.data, was.len, turned.data, turned.len, &list, &err), -EFBIG);
    assert_int_equal(hunk_count_lines(was.data, was.len, turned.data, turned.len, &added, &removed, &err), -EFBIG);
}

/* Every diagonal goes on for long: given up by its steps. */
static void lines_that_are_all_alike(void **state)
{
    autodone(buf) struct buf was = BUF_EMPTY, now = BUF_EMPTY;

    (void) state;
    for (size_t i = 0; i < LONG; i++) {
        buf_add_str(&was, i % 50 == 7 ? "b\n" : "a\n");
        buf_add_str(&now, i % 49 == 7 ? "c\n" : "a\n");
    }
    assert_false(is_small(&was, &now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_texts_are_always_compared),
        cmocka_unit_test(long_texts_that_are_nearly_the_same),
        cmocka_unit_test(long_texts_with_little_in_common_are_not),
        cmocka_unit_test(lines_that_are_all_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
