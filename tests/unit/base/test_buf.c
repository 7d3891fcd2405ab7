#include "fixture.h"

#include "base/buf.h"

static void text_is_always_ended_by_a_nul(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;

    (void) state;
    for (int i = 0; i < 1000; i++) {
        buf_add_char(&b, 'x');
        assert_int_equal(b.data[b.len], '\0');
    }
    buf_add_str(&b, "yz");
    buf_addf(&b, "%d", 42);
    assert_int_equal(b.len, 1004);
    assert_string_equal(b.data + 1000, "yz42");
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
}

static void nuls_inside_are_bytes_like_others(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;

    (void) state;
    buf_add(&b, "a\0b", 3);
    buf_add(&b, NULL, 0);
    assert_int_equal(b.len, 3);
    assert_memory_equal(b.data, "a\0b\0", 4);
}

static void long_formatted_text_fits(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;

    (void) state;
    buf_addf(&b, "<%0*d>", 9000, 1);
    buf_addf(&b, "%s", "");
    assert_int_equal(b.len, 9002);
    assert_int_equal(b.data[9001], '>');
}

static void taking_the_bytes_leaves_it_empty_and_usable(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    autofree char *nothing = buf_dup_take(&b);
    autofree char *taken = NULL;

    (void) state;
    assert_string_equal(nothing, "");
    buf_add_str(&b, "one");
    taken = buf_dup_take(&b);
    buf_add_str(&b, "two");
    assert_string_equal(taken, "one");
    assert_string_equal(b.data, "two");
}

static void done_twice_is_done_once(void **state)
{
    struct buf b = BUF_EMPTY;

    (void) state;
    buf_add_str(&b, "x");
    buf_done(&b);
    buf_done(&b);
    assert_null(b.data);
}

static void strangers_text_cannot_move_the_cursor_or_mislead(void **state)
{
    static const struct {
        const char *raw, *shown;
    } cases[] = {
        { "plain größe 日本 🙂", "plain größe 日本 🙂" },
        { "a\nb\tc\rd", "a\\nb\\tc\\rd" },
        { "\x1b[2Jx\x07", "\\x1b[2Jx\\x07" },
        { "\x7f", "\\x7f" },
        { "back\\slash", "back\\\\slash" },
        { "\xff\xfe", "\\xff\\xfe" },
        { "cut \xe6\x97", "cut \\xe6\\x97" },
        { "\xc0\xaf", "\\xc0\\xaf" },          /* overlong slash */
        { "\xed\xa0\x80", "\\xed\\xa0\\x80" }, /* surrogate */
        { "\xc2\x9b", "\\u009b" },             /* CSI as one character */
        { "a\xe2\x80\xae"
          "b",
          "a\\u202eb" }, /* right-to-left override */
        { "a\xe2\x81\xa6"
          "b",
          "a\\u2066b" }, /* isolate */
        { "a\xe2\x80\x8b"
          "b",
          "a\\u200bb" },                       /* zero width space */
        { "\xd8\x9c", "\\u061c" },             /* arabic letter mark */
        { "\xe2\x80\xa8", "\\u2028" },         /* line separator */
        { "\xef\xbb\xbf", "\\ufeff" },         /* byte order mark */
        { "\xf3\xa0\x81\x81", "\\U000e0041" }, /* tag character */
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autodone(buf) struct buf b = BUF_EMPTY;

        buf_add_escaped(&b, cases[i].raw, strlen(cases[i].raw));
        assert_string_equal(b.data, cases[i].shown);
    }
}

static void escaping_leaves_no_control_byte_whatever_comes_in(void **state)
{
    (void) state;
    for (int first = 0; first < 256; first++)
        for (int second = 0; second < 256; second++) {
            autodone(buf) struct buf b = BUF_EMPTY;
            char raw[2] = { (char) first, (char) second };

            buf_add_escaped(&b, raw, sizeof(raw));
            for (size_t i = 0; i < b.len; i++)
                assert_true((unsigned char) b.data[i] >= 0x20 && b.data[i] != 0x7F);
        }
}

static int ask_for_too_much(void *arg)
{
    struct buf b = { .data = arg, .len = 10, .cap = 0 };

    buf_room(&b, SIZE_MAX - 5);
    return 0;
}

static void a_size_that_wraps_around_aborts(void **state)
{
    (void) state;
    assert_int_equal(in_child(ask_for_too_much, NULL), 128 + SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_always_ended_by_a_nul),
        cmocka_unit_test(nuls_inside_are_bytes_like_others),
        cmocka_unit_test(long_formatted_text_fits),
        cmocka_unit_test(taking_the_bytes_leaves_it_empty_and_usable),
        cmocka_unit_test(done_twice_is_done_once),
        cmocka_unit_test(strangers_text_cannot_move_the_cursor_or_mislead),
        cmocka_unit_test(escaping_leaves_no_control_byte_whatever_comes_in),
        cmocka_unit_test(a_size_that_wraps_around_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
