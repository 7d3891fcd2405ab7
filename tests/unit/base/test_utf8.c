#include "fixture.h"

#include "base/utf8.h"

static void every_scalar_value_survives_the_round_trip(void **state)
{
    (void) state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        uint32_t back = 0;
        char bytes[4];
        size_t n;

        if (cp == 0xD800)
            cp = 0xE000;
        n = utf8_write(cp, bytes);
        if (utf8_decode(bytes, n, &back) != n || back != cp)
            fail_msg("U+%04X came back as U+%04X", cp, back);
    }
}

static void lengths_change_where_the_standard_says(void **state)
{
    static const struct {
        uint32_t cp;
        size_t len;
    } cases[] = { { 0x7F, 1 }, { 0x80, 2 }, { 0x7FF, 2 }, { 0x800, 3 }, { 0xFFFF, 3 }, { 0x10000, 4 }, { 0x10FFFF, 4 } };
    char bytes[4];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(utf8_write(cases[i].cp, bytes), cases[i].len);
}

/* Text is looked at several bytes at a time. */
static void one_bad_byte_is_seen_wherever_it_stands(void **state)
{
    char text[40];

    (void) state;
    for (size_t len = 1; len <= sizeof(text); len++) {
        for (size_t at = 0; at < len; at++) {
            memset(text, 'x', sizeof(text));
            assert_true(utf8_is_valid(text, len));
            text[at] = (char) 0xFF;
            assert_false(utf8_is_valid(text, len));
            text[at] = (char) 0xC3;
            if (at + 1 < len)
                text[at + 1] = (char) 0xA9;
            assert_int_equal(utf8_is_valid(text, len), at + 1 < len);
        }
    }
}

static void what_is_not_utf8_is_refused(void **state)
{
    static const char *const bad[] = {
        "\x80", /* continuation alone */
        "\xbf",
        "\xc0\x80", /* overlong NUL */
        "\xc1\xbf",
        "\xe0\x80\xaf", /* overlong slash */
        "\xe0\x9f\xbf",
        "\xf0\x80\x80\xaf", /* and again */
        "\xf0\x8f\xbf\xbf",
        "\xed\xa0\x80",     /* first surrogate */
        "\xed\xbf\xbf",     /* last surrogate */
        "\xf4\x90\x80\x80", /* above U+10FFFF */
        "\xf5\x80\x80\x80",
        "\xf8\x88\x80\x80",
        "\xfe",
        "\xff",
        "\xc3(", /* broken second byte */
        "\xe2\x82(",
        "\xf0\x9f\x98(",
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        uint32_t cp = 0x1234;

        assert_int_equal(utf8_decode(bad[i], strlen(bad[i]), &cp), 0);
        assert_int_equal(cp, 0x1234);
        assert_false(utf8_is_valid(bad[i], strlen(bad[i])));
    }
}

static void a_sequence_cut_short_is_refused_and_not_read_past(void **state)
{
    static const char smile[] = "\xf0\x9f\x99\x82";
    uint32_t cp;

    (void) state;
    for (size_t len = 0; len < 4; len++) {
        char *exact = len ? malloc(len) : NULL; /* so that ASan sees one byte too many */

        if (exact)
            memcpy(exact, smile, len);
        assert_int_equal(utf8_decode(exact, len, &cp), 0);
        free(exact);
    }
    assert_int_equal(utf8_decode(smile, 4, &cp), 4);
    assert_int_equal(cp, 0x1F642);
}

static void whole_texts_are_judged(void **state)
{
    (void) state;
    assert_true(utf8_is_valid("", 0));
    assert_true(utf8_is_valid("größe\0日本", 14));
    assert_false(utf8_is_valid("good \xff bad", 10));
    assert_false(utf8_is_valid("cut \xe6\x97", 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_value_survives_the_round_trip),
        cmocka_unit_test(lengths_change_where_the_standard_says),
        cmocka_unit_test(what_is_not_utf8_is_refused),
        cmocka_unit_test(one_bad_byte_is_seen_wherever_it_stands),
        cmocka_unit_test(a_sequence_cut_short_is_refused_and_not_read_past),
        cmocka_unit_test(whole_texts_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
