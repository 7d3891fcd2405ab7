#include "review/hunk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static void make(const char *was, const char *now, struct hunk_list *ret)
{
    struct err err = ERR_NONE;

    if (hunk_list_make(was, strlen(was), now, strlen(now), ret, &err) < 0)
        fail_msg("%s", err.text);
}

static void assert_pick(const char *was, const char *now, const struct hunk_list *list, const bool *chosen,
                        const char *expected)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    struct err err = ERR_NONE;

    assert_int_equal(hunk_list_pick(was, strlen(was), now, strlen(now), list, chosen, &out, &err), 0);
    assert_string_equal(out.data ? out.data : "", expected);
}

#define TWELVE "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"

static void each_hunk_can_be_taken_by_itself(void **state)
{
    const char *was = TWELVE, *now = "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n";
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY;

    (void) state;
    make(was, now, &list);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[0].header, "@@ -1,5 +1,5 @@");
    assert_string_equal(list.items[0].lines.data, " 1\n-2\n+two\n 3\n 4\n 5\n");
    assert_int_equal(list.items[0].added, 1);
    assert_int_equal(list.items[0].removed, 1);
    assert_string_equal(list.items[1].header, "@@ -10,3 +10,4 @@");
    assert_int_equal(list.items[1].old_start, 10);
    assert_int_equal(list.items[1].old_lines, 3);
    assert_int_equal(list.items[1].new_lines, 4);
    assert_int_equal(list.items[1].removed, 0);
    assert_pick(was, now, &list, (bool[]){ false, false }, was);
    assert_pick(was, now, &list, (bool[]){ true, false }, "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n");
    assert_pick(was, now, &list, (bool[]){ false, true }, TWELVE "13\n");
    assert_pick(was, now, &list, (bool[]){ true, true }, now);
}

static void a_hunk_keeps_its_id_when_another_is_taken(void **state)
{
    const char *was = TWELVE, *now = "0\n0\n1\ntwo\n3\n4\n5\n6\n7\n8\n9\n10\nE\n12\n";
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY, rest = HUNK_LIST_EMPTY;
    autodone(buf) struct buf half = BUF_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    make(was, now, &list);
    assert_int_equal(list.count, 2);
    assert_string_not_equal(list.items[0].id, list.items[1].id);
    assert_int_equal(strlen(list.items[0].id), HUNK_ID_LEN);
    assert_int_equal(hunk_list_pick(was, strlen(was), now, strlen(now), &list, (bool[]){ true, false }, &half, &err), 0);
    make(half.data, now, &rest);
    assert_int_equal(rest.count, 1);
    assert_string_equal(rest.items[0].id, list.items[1].id);
    assert_int_equal(rest.items[0].old_start, list.items[1].old_start + 2);
    assert_ptr_equal(hunk_list_find(&list, rest.items[0].id), &list.items[1]);
    assert_null(hunk_list_find(&list, "0123456789abcdef"));
}

static void hunks_that_do_the_same_have_ids_of_their_own(void **state)
{
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY;

    (void) state;
    make("x\n" TWELVE "x\n" TWELVE "x\n", "y\n" TWELVE "y\n" TWELVE "y\n", &list);
    assert_int_equal(list.count, 3);
    assert_string_not_equal(list.items[0].id, list.items[1].id);
    assert_string_not_equal(list.items[1].id, list.items[2].id);
    assert_string_not_equal(list.items[0].id, list.items[2].id);
}

/* Adding a line and removing it, the newline at the end, and where one line ends: each tells. */
static void what_a_hunk_does_is_in_its_id(void **state)
{
    static const char *const pairs[][2] = { { "a\nb\n", "a\n" }, { "a\n", "a\nb\n" }, { "a\n", "a\nb" }, { "a\n", "a\n-b\n" },
                                            { "a", "a\n" },      { "a\n", "a" },      { "", "b\n" },     { "", "\n" } };
    struct hunk_list lists[ARRAY_LEN(pairs)] = { 0 };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        make(pairs[i][0], pairs[i][1], &lists[i]);
        assert_int_equal(lists[i].count, 1);
        for (size_t k = 0; k < i; k++) {
            /* "+b" is the same whether or not a line is above it. */
            bool same = (i == 6 && k == 1);
            assert_int_equal(strcmp(lists[i].items[0].id, lists[k].items[0].id) == 0, same);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        hunk_list_done(&lists[i]);
}

static void a_missing_newline_is_told_and_kept(void **state)
{
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY, other = HUNK_LIST_EMPTY;

    (void) state;
    make("a\nb", "a\nb\nc", &list);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].lines.data,
                        " a\n-b\n\\ No newline at end of file\n+b\n+c\n\\ No newline at end of file\n");
    assert_pick("a\nb", "a\nb\nc", &list, (bool[]){ false }, "a\nb");
    assert_pick("a\nb", "a\nb\nc", &list, (bool[]){ true }, "a\nb\nc");
    make("a\nb", "b", &other);
    assert_string_equal(other.items[0].lines.data, "-a\n b\n\\ No newline at end of file\n");
}

static void equal_and_empty_texts_have_no_hunks(void **state)
{
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY;
    autodone(buf) struct buf out = BUF_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    make("same\n", "same\n", &list);
    assert_int_equal(list.count, 0);
    assert_int_equal(hunk_list_make(NULL, 0, NULL, 0, &list, &err), 0);
    assert_int_equal(list.count, 0);
    assert_int_equal(hunk_list_pick(NULL, 0, NULL, 0, &list, NULL, &out, &err), 0);
    assert_int_equal(out.len, 0);
}

static void hunks_of_another_text_are_refused(void **state)
{
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY;
    autodone(buf) struct buf out = BUF_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    make(TWELVE, TWELVE "13\n", &list);
    assert_int_equal(hunk_list_pick("1\n", 2, "2\n", 2, &list, (bool[]){ true }, &out, &err), -EINVAL);
    assert_int_equal(out.len, 0);
}

static void too_many_lines_are_refused(void **state)
{
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY;
    autofree char *text = xalloc(HUNK_LINES_MAX + 1);
    struct err err = ERR_NONE;

    (void) state;
    memset(text, '\n', HUNK_LINES_MAX + 1);
    assert_int_equal(hunk_list_make("", 0, text, HUNK_LINES_MAX + 1, &list, &err), -EFBIG);
    assert_int_equal(hunk_list_make("", 0, text, HUNK_LINES_MAX, &list, &err), 0);
    assert_int_equal(list.items[0].added, HUNK_LINES_MAX);
}

/* ---- random texts ---- */

static uint32_t seed = 1;

static uint32_t dice(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* Few different lines, so that much looks like something else. */
static void add_random_line(struct buf *out)
{
    static const char *const lines[] = {
        "\n", "a\n", "b\n", "}\n", "a\r\n", "-a\n", "+\n", "@@ -1 +1 @@\n", "\\ No newline\n"
    };

    if (dice(30) == 0)
        buf_add(out, "n\0l\n", 4);
    else
        buf_add_str(out, lines[dice(ARRAY_LEN(lines))]);
}

static void random_pair(struct buf *was, struct buf *now)
{
    for (uint32_t n = dice(60); n > 0; n--) {
        size_t from = was->len;
        add_random_line(was);
        if (dice(8) != 0)
            buf_add(now, was->data + from, was->len - from);
        if (dice(8) == 0)
            add_random_line(now);
    }
    if (was->len > 0 && dice(3) == 0)
        was->len--;
    if (now->len > 0 && dice(3) == 0)
        now->len--;
}

static void assert_same(const struct buf *got, const struct buf *expected)
{
    assert_int_equal(got->len, expected->len);
    if (got->len > 0)
        assert_memory_equal(got->data, expected->data, got->len);
}

static void pick(const struct buf *was, const struct buf *now, const struct hunk_list *list, const bool *chosen,
                 struct buf *out)
{
    struct err err = ERR_NONE;

    assert_int_equal(hunk_list_pick(was->data, was->len, now->data, now->len, list, chosen, out, &err), 0);
}

static void take_all(const struct buf *was, const struct buf *now, struct buf *out)
{
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY;
    bool chosen[64];
    struct err err = ERR_NONE;

    memset(chosen, true, sizeof(chosen));
    assert_int_equal(hunk_list_make(was->data, was->len, now->data, now->len, &list, &err), 0);
    pick(was, now, &list, chosen, out);
}

static size_t count_lines(const struct buf *text)
{
    size_t lines = text->len > 0 && text->data[text->len - 1] != '\n';

    for (size_t i = 0; i < text->len; i++)
        lines += text->data[i] == '\n';
    return lines;
}

static void try_pair(const struct buf *was, const struct buf *now)
{
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY;
    autodone(buf) struct buf none = BUF_EMPTY, all = BUF_EMPTY, some = BUF_EMPTY, rest = BUF_EMPTY;
    bool chosen[64] = { false };
    int64_t expected = 0;
    size_t added = 0, removed = 0, counted_added, counted_removed;
    struct err err = ERR_NONE;

    assert_int_equal(hunk_list_make(was->data, was->len, now->data, now->len, &list, &err), 0);
    pick(was, now, &list, chosen, &none);
    assert_same(&none, was);
    memset(chosen, true, sizeof(chosen));
    pick(was, now, &list, chosen, &all);
    assert_same(&all, now);
    assert_true(list.count < ARRAY_LEN(chosen));
    for (size_t i = 0; i < list.count; i++) {
        chosen[i] = dice(2);
        added += list.items[i].added;
        removed += list.items[i].removed;
    }
    assert_int_equal(hunk_count_lines(was->data, was->len, now->data, now->len, &counted_added, &counted_removed, &err), 0);
    assert_int_equal(counted_added, added);
    assert_int_equal(counted_removed, removed);
    /* Some first, and the rest later: together they are all. */
    pick(was, now, &list, chosen, &some);
    take_all(&some, now, &rest);
    assert_same(&rest, now);
    for (size_t i = 0; i < list.count; i++)
        expected += chosen[i] ? (int64_t) list.items[i].added - (int64_t) list.items[i].removed : 0;
    assert_int_equal((int64_t) count_lines(&some) - (int64_t) count_lines(was), expected);
}

static void random_texts_are_picked_to_the_byte(void **state)
{
    (void) state;
    for (int i = 0; i < 5000; i++) {
        autodone(buf) struct buf was = BUF_EMPTY, now = BUF_EMPTY;
        random_pair(&was, &now);
        try_pair(&was, &now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_hunk_can_be_taken_by_itself),
        cmocka_unit_test(a_hunk_keeps_its_id_when_another_is_taken),
        cmocka_unit_test(hunks_that_do_the_same_have_ids_of_their_own),
        cmocka_unit_test(what_a_hunk_does_is_in_its_id),
        cmocka_unit_test(a_missing_newline_is_told_and_kept),
        cmocka_unit_test(equal_and_empty_texts_have_no_hunks),
        cmocka_unit_test(hunks_of_another_text_are_refused),
        cmocka_unit_test(too_many_lines_are_refused),
        cmocka_unit_test(random_texts_are_picked_to_the_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
