#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "policy/glob.h"

static bool matches(const char *pattern, const char *name)
{
    struct glob glob;
    struct err err = ERR_NONE;

    if (glob_parse(pattern, strlen(pattern), &glob, &err) < 0)
        fail_msg("%s: %s", pattern, err.text);
    bool match = glob_matches(&glob, name, strlen(name));
    glob_done(&glob);
    return match;
}

static enum glob_shape shape(const char *pattern)
{
    struct glob glob;

    assert_int_equal(glob_parse(pattern, strlen(pattern), &glob, NULL), 0);
    enum glob_shape s = glob.shape;
    glob_done(&glob);
    return s;
}

static void stars_match_any_run_and_leading_dots(void **state)
{
    (void) state;
    assert_true(matches("*", ".hidden"));
    assert_true(matches("*.py", ".py"));
    assert_true(matches("a*b*c", "aXbXbXc"));
    assert_false(matches("a*b*c", "aXbXb"));
    assert_true(matches("**", "x"));
    assert_true(matches("a***z", "az"));
    assert_true(matches("*a*a*a*", "aaa"));
    assert_false(matches("*a*a*a*", "aa"));
}

static void a_question_mark_is_one_character_not_one_byte(void **state)
{
    (void) state;
    assert_true(matches("caf?", "caf\xc3\xa9"));
    assert_false(matches("caf??", "caf\xc3\xa9"));
    assert_true(matches("?", "\xf0\x9f\x98\x80"));
    assert_true(matches("?", "\xff"));
    assert_true(matches("??", "\xff\xfe"));
    assert_true(matches("[\xc3\xa0-\xc3\xbf]", "\xc3\xa9"));
    assert_false(matches("[\xc3\xa0-\xc3\xbf]", "\xc3"));
}

static void classes_know_ranges_negation_escapes_and_names(void **state)
{
    (void) state;
    assert_true(matches("[a-c]", "b"));
    assert_false(matches("[!a-c]", "b"));
    assert_true(matches("[^a-c]", "\xc3\xa9"));
    assert_true(matches("[]]", "]"));
    assert_true(matches("[!]]", "x"));
    assert_true(matches("[a-]", "-"));
    assert_true(matches("[\\]]", "]"));
    assert_true(matches("[[:alpha:]_]", "_"));
    assert_true(matches("[[:xdigit:]]", "F"));
    assert_false(matches("[![:space:]]", " "));
}

static void backslash_takes_the_next_character_as_it_is(void **state)
{
    (void) state;
    assert_true(matches("\\*", "*"));
    assert_false(matches("\\*", "x"));
    assert_true(matches("a\\b", "ab"));
    assert_true(matches("\\[x\\]", "[x]"));
    assert_true(matches("\\\\", "\\"));
}

static void malformed_globs_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *pattern, *reason;
    } bad[] = {
        { "[", "unclosed character class" },
        { "[a", "unclosed character class" },
        { "[]", "unclosed character class" },
        { "[!]", "unclosed character class" },
        { "[a-", "unclosed character class" },
        { "[\\", "unclosed character class" },
        { "[z-a]", "reversed range" },
        { "x\\", "backslash with nothing after it" },
        { "[[:nope:]]", "unknown character class" },
        { "[[:alpha]", "unclosed '[:'" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct glob glob;
        struct err err = ERR_NONE;
        assert_int_equal(glob_parse(bad[i].pattern, strlen(bad[i].pattern), &glob, &err), -EINVAL);
        if (!strstr(err.text, bad[i].reason))
            fail_msg("%s: %s", bad[i].pattern, err.text);
    }
}

static void the_shape_says_how_a_glob_can_be_found(void **state)
{
    (void) state;
    assert_int_equal(shape("abc"), GLOB_LITERAL);
    assert_int_equal(shape("a\\*"), GLOB_LITERAL);
    assert_int_equal(shape("*"), GLOB_ANY);
    assert_int_equal(shape("**"), GLOB_ANY);
    assert_int_equal(shape("a*"), GLOB_PREFIX);
    assert_int_equal(shape("*a"), GLOB_SUFFIX);
    assert_int_equal(shape("a*b"), GLOB_OTHER);
    assert_int_equal(shape("a?"), GLOB_OTHER);
    assert_int_equal(shape("*a*"), GLOB_OTHER);
    /* Compared as bytes, these would match half a character. */
    assert_int_equal(shape("\xc3*"), GLOB_OTHER);
    assert_int_equal(shape("*\xa9"), GLOB_OTHER);
}

/* Backtracking over many stars must not explode. */
static void many_stars_stay_cheap(void **state)
{
    char pattern[512] = "", name[256];

    (void) state;
    for (int i = 0; i < 100; i++)
        strcat(pattern, "*a");
    strcat(pattern, "b");
    memset(name, 'a', 255);
    name[255] = '\0';
    assert_false(matches(pattern, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stars_match_any_run_and_leading_dots),
        cmocka_unit_test(a_question_mark_is_one_character_not_one_byte),
        cmocka_unit_test(classes_know_ranges_negation_escapes_and_names),
        cmocka_unit_test(backslash_takes_the_next_character_as_it_is),
        cmocka_unit_test(malformed_globs_are_refused_with_a_reason),
        cmocka_unit_test(the_shape_says_how_a_glob_can_be_found),
        cmocka_unit_test(many_stars_stay_cheap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
