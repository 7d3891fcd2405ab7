#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "policy/preset.h"
#include "policy/rule.h"

static void a_bad_rule_is_refused_by_number_and_value(void **state)
{
    static const struct {
        const char *pattern;
        size_t len;
        const char *reason;
    } bad[] = {
        { "", 0, "rule 2 '': the pattern is empty" },
        { "../x", 4, "rule 2 '../x': '..' is not allowed" },
        { "/a/../b", 7, "'..' is not allowed" },
        { "/a/\\.\\.", 7, "'..' is not allowed" },
        { "a\0b", 3, "rule 2 'a\\x00b': the pattern contains a NUL byte" },
        { "/[abc", 5, "rule 2 '/[abc': unclosed character class" },
        { "/a\\", 3, "backslash with nothing after it" },
        { "/a\nb/[", 6, "rule 2 '/a\\nb/[': unclosed" },
    };
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;

    (void) state;
    assert_int_equal(rule_list_add(&list, "/ok", 3, RULE_GLOB, LEVEL_READ, 0, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = ERR_NONE;
        assert_int_equal(rule_list_add(&list, bad[i].pattern, bad[i].len, RULE_GLOB, LEVEL_READ, 0, &err), -EINVAL);
        assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
        if (!strstr(err.text, bad[i].reason))
            fail_msg("'%s' lacks '%s'", err.text, bad[i].reason);
        assert_int_equal(list.count, 1);
    }
}

static void a_pattern_may_have_4096_bytes_and_no_more(void **state)
{
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;
    char pattern[4098];
    struct err err = ERR_NONE;

    (void) state;
    memset(pattern, 'x', sizeof(pattern));
    assert_int_equal(rule_list_add(&list, pattern, 4096, RULE_GLOB, LEVEL_READ, 0, &err), 0);
    assert_int_equal(rule_list_add(&list, pattern, 4097, RULE_GLOB, LEVEL_READ, 0, &err), -EINVAL);
    assert_non_null(strstr(err.text, "longer than 4096 bytes"));
    assert_true(strlen(err.text) < 300);
}

static void ten_thousand_rules_are_taken_and_no_more(void **state)
{
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    for (int i = 0; i < 10000; i++)
        assert_int_equal(rule_list_add(&list, "/x", 2, RULE_GLOB, LEVEL_READ, 0, &err), 0);
    assert_int_equal(rule_list_add(&list, "/x", 2, RULE_GLOB, LEVEL_READ, 0, &err), -EINVAL);
    assert_non_null(strstr(err.text, "more than 10000 rules"));
    assert_int_equal(preset_add("agent-safe", &list, &err), -EINVAL);
    assert_int_equal(list.count, 10000);
}

static void the_short_form_splits_at_the_last_equals_sign(void **state)
{
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;

    (void) state;
    assert_int_equal(rule_list_add_short(&list, "/a=b/**=read", NULL), 0);
    assert_string_equal(list.items[0].pattern, "/a=b/**");
    assert_int_equal(rule_list_add_short(&list, "/x=none@-2147483648", NULL), 0);
    assert_int_equal(list.items[1].priority, INT32_MIN);
    assert_int_equal(rule_list_add_short(&list, "/mail@host=write@7", NULL), 0);
    assert_string_equal(list.items[2].pattern, "/mail@host");
    assert_int_equal(list.items[2].priority, 7);
    assert_int_equal(list.items[2].level, LEVEL_WRITE);
}

static void a_bad_short_form_says_what_was_expected(void **state)
{
    static const struct {
        const char *text, *reason;
    } bad[] = {
        { "/x", "expected PATTERN=LEVEL or PATTERN=LEVEL@PRIORITY" },
        { "/x=raed", "unknown level 'raed' (one of none, view, read, write)" },
        { "/x=READ", "unknown level 'READ'" },
        { "/x=", "unknown level ''" },
        { "=read", "the pattern is empty" },
        { "/x=read@", "priority '' is not a whole number" },
        { "/x=read@1.5", "priority '1.5'" },
        { "/x=read@2147483648", "priority '2147483648' is not a whole number from -2147483648 to 2147483647" },
        { "/x=read@-2147483649", "priority '-2147483649'" },
        { "/x=read@ 1", "priority ' 1'" },
        { "/x=read@99999999999999999999", "priority '99999999999999999999'" },
    };
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = ERR_NONE;
        assert_int_equal(rule_list_add_short(&list, bad[i].text, &err), -EINVAL);
        if (!strstr(err.text, bad[i].reason) || strncmp(err.text, "rule 1 '", 8) != 0)
            fail_msg("%s: %s", bad[i].text, err.text);
        assert_int_equal(list.count, 0);
    }
}

static void presets_are_known_by_name_only(void **state)
{
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;
    struct err err = ERR_NONE;
    size_t count;
    const struct preset *presets = preset_list(&count);

    (void) state;
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(preset_add(presets[i].name, &list, &err), 0);
        if (i > 0)
            assert_true(strcmp(presets[i - 1].name, presets[i].name) < 0);
    }
    assert_int_equal(preset_add("agent-unsafe", &list, &err), -EINVAL);
    assert_string_equal(err.text,
                        "unknown preset 'agent-unsafe' (one of agent-safe, development, full-access, read-only, view-only)");
}

/* As the Python SDK documents extend_preset(): additions as they are, overrides raised above everything before them. */
static void overrides_of_an_extended_preset_are_raised_to_win(void **state)
{
    autodone(rule_list) struct rule_list additions = RULE_LIST_EMPTY;
    autodone(rule_list) struct rule_list overrides = RULE_LIST_EMPTY;
    autodone(rule_list) struct rule_list all = RULE_LIST_EMPTY;
    autodone(rule_list) struct rule_list plain = RULE_LIST_EMPTY;

    (void) state;
    rule_list_add_short(&additions, "/logs/**=write", NULL);
    rule_list_add_short(&overrides, "**/.git/**=read", NULL);
    rule_list_add_short(&overrides, "/x=read@100", NULL);
    rule_list_add_short(&overrides, "/y=read@101", NULL);
    assert_int_equal(preset_add("agent-safe", &plain, NULL), 0);
    assert_int_equal(preset_extend("agent-safe", &additions, &overrides, &all, NULL), 0);
    assert_int_equal(all.count, plain.count + 4);
    assert_int_equal(all.items[plain.count].priority, 0);
    assert_int_equal(all.items[plain.count + 1].priority, 200);
    assert_int_equal(all.items[plain.count + 2].priority, 200);
    assert_int_equal(all.items[plain.count + 3].priority, 101);
    assert_null(all.items[plain.count].preset);
    assert_string_equal(all.items[0].preset, "agent-safe");
}

static void raising_stops_at_the_largest_priority(void **state)
{
    autodone(rule_list) struct rule_list additions = RULE_LIST_EMPTY;
    autodone(rule_list) struct rule_list overrides = RULE_LIST_EMPTY;
    autodone(rule_list) struct rule_list all = RULE_LIST_EMPTY;

    (void) state;
    rule_list_add_short(&additions, "/a=none@2147483647", NULL);
    rule_list_add_short(&overrides, "/a=read", NULL);
    assert_int_equal(preset_extend("read-only", &additions, &overrides, &all, NULL), 0);
    assert_int_equal(all.items[all.count - 1].priority, INT32_MAX);
}

static bool forbids_nothing(const char *const *rules)
{
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;
    struct err err = ERR_NONE;

    for (; *rules; rules++)
        assert_int_equal(rule_list_add_short(&list, *rules, &err), 0);
    return rule_list_forbids_nothing(&list);
}

static void only_rules_that_grant_all_of_everything_forbid_nothing(void **state)
{
    (void) state;
    assert_true(forbids_nothing((const char *const[]){ "/**=write", NULL }));
    assert_true(forbids_nothing((const char *const[]){ "**/*=write", "/x=write", NULL }));
    assert_true(forbids_nothing((const char *const[]){ "/=write", NULL }));
    assert_false(forbids_nothing((const char *const[]){ NULL }));
    assert_false(forbids_nothing((const char *const[]){ "/src/**=write", NULL }));
    assert_false(forbids_nothing((const char *const[]){ "/**=read", NULL }));
    assert_false(forbids_nothing((const char *const[]){ "/**=write", "*.key=none", NULL }));
    assert_false(forbids_nothing((const char *const[]){ "/**=write", "/x=view", NULL }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_rule_is_refused_by_number_and_value),
        cmocka_unit_test(a_pattern_may_have_4096_bytes_and_no_more),
        cmocka_unit_test(ten_thousand_rules_are_taken_and_no_more),
        cmocka_unit_test(the_short_form_splits_at_the_last_equals_sign),
        cmocka_unit_test(a_bad_short_form_says_what_was_expected),
        cmocka_unit_test(presets_are_known_by_name_only),
        cmocka_unit_test(overrides_of_an_extended_preset_are_raised_to_win),
        cmocka_unit_test(only_rules_that_grant_all_of_everything_forbid_nothing),
        cmocka_unit_test(raising_stops_at_the_largest_priority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
