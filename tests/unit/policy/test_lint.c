#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/lint.h"

#include "rules_from_text.h"

/* "code rule/other" of each finding, errors marked with '!': "!none-beaten 1/2; never-wins 3/1". */
static char *findings_of(const char *text, const char *const *paths)
{
    struct ruleset *rules = ruleset_from_text(text, false);
    struct lint *lint = lint_new(rules);
    char *found = xdup("");
    size_t count;

    for (; paths && *paths; paths++)
        lint_add_path(lint, *paths);
    lint_finish(lint);
    const struct lint_finding *findings = lint_findings(lint, &count);
    for (size_t i = 0; i < count; i++) {
        char *more = xprintf("%s%s%s%s %zu/%zu", found, i ? "; " : "", findings[i].severity == LINT_ERROR ? "!" : "",
                             findings[i].code, findings[i].rule + 1, findings[i].other + 1);
        assert_true(strlen(findings[i].text) > 20);
        free(found);
        found = more;
    }
    lint_free(lint);
    ruleset_unref(rules);
    return found;
}

static void expect(const char *text, const char *expected)
{
    autofree char *found = findings_of(text, NULL);

    if (strcmp(found, expected) != 0)
        fail_msg("rules '%s': found '%s', expected '%s'", text, found, expected);
}

static void sound_rules_have_no_findings(void **state)
{
    (void) state;
    expect("**/*=read; /secrets/**=none; /secrets/public.key=read", "");
    expect("**/*=read; /output/**=write@10; **/.env*=none@100", "");
    expect("**/*=none; /src/**=read", "");
    expect("preset:agent-safe; /logs/**=write", "");
    expect("preset:agent-safe; /config/.env=read@200", "");
    expect("preset:agent-safe", "");
    expect("preset:development", "");
}

static void a_none_that_a_broader_grant_beats_is_an_error(void **state)
{
    (void) state;
    expect("**/*.key=none; **/*=read@10", "!none-beaten 1/2");
    expect("/a/b=none; /a/=write@1", "!none-beaten 1/2");
    expect("/a/*=none; /a/=write", "!none-beaten 1/2");
}

static void a_none_hidden_by_another_is_only_superfluous(void **state)
{
    (void) state;
    expect("**/*.key=none; **/*=read@10; **/*.k*=none@20", "never-wins 1/2");
}

static void rules_that_can_never_win_are_found(void **state)
{
    (void) state;
    expect("/a/**=read; /a/**=write", "never-wins 1/2");
    expect("/a/b/**=read; /a/**=write@1", "never-wins 1/2");
    expect("/a/**=read; /a/**=none", "never-wins 1/2");
    expect("/a/**=none; /a/**=none", "never-wins 2/1");
    expect("file:/a=read; file:/a=view", "never-wins 1/2");
    expect("/a=read; /a/=view", "");
}

static void a_none_that_is_partly_outranked_is_a_warning(void **state)
{
    (void) state;
    expect("**/.env=none; /src/**=read@5", "partly-beaten 1/2");
    expect("/src/**=none; /src/a.c=read@5", "");
    expect("**/*.key=none; /x/=read", "partly-beaten 1/2");
}

static void opening_the_secrets_of_a_preset_is_told_once(void **state)
{
    autofree char *found = findings_of("preset:development; **/*=write@200", NULL);
    autofree char *partly = findings_of("preset:development; /config/**=write@200", NULL);

    (void) state;
    assert_non_null(strstr(found, "!none-beaten "));
    assert_null(strchr(found, ';'));
    assert_int_equal(strncmp(partly, "partly-beaten ", 14), 0);
    assert_null(strchr(partly, ';'));
}

static void patterns_that_match_nothing_are_found_only_with_a_codebase(void **state)
{
    static const char *const paths[] = { "/", "/src", "/src/a.c", "/secrets", "/secrets/x", NULL };
    autofree char *found =
        findings_of("**/*=read; /secret/**=none; /output/**=write; /src/*.h=view; preset:development", paths);
    autofree char *without = findings_of("/secret/**=none", NULL);

    (void) state;
    assert_non_null(strstr(found, "matches-nothing 2/0"));
    assert_non_null(strstr(found, "matches-nothing 4/0"));
    assert_null(strstr(found, "matches-nothing 3/0"));
    assert_null(strstr(found, "matches-nothing 1/0"));
    assert_null(strstr(found, "matches-nothing 5/0"));
    assert_string_equal(without, "");
}

static void wildcards_in_exact_rules_are_pointed_out(void **state)
{
    (void) state;
    expect("file:/pages/[id].tsx=read", "literal-wildcard 1/0");
    expect("file:*.pem=none", "literal-wildcard 1/0");
    expect("file:/plain=read", "");
}

static void ten_thousand_rules_are_linted_in_bounded_work(void **state)
{
    struct rule_list list = RULE_LIST_EMPTY;
    struct ruleset *rules;
    size_t count;

    (void) state;
    for (int i = 0; i < 10000; i++) {
        autofree char *pattern = xprintf("**/dir%d/**/*.x%d", i, i);
        assert_int_equal(
            rule_list_add(&list, pattern, strlen(pattern), RULE_GLOB, i % 2 ? LEVEL_NONE : LEVEL_READ, i % 3, NULL), 0);
    }
    assert_int_equal(ruleset_new(&list, NULL, &rules, NULL), 0);
    struct lint *lint = lint_new(rules);
    lint_finish(lint);
    const struct lint_finding *findings = lint_findings(lint, &count);
    assert_true(count > 0);
    assert_string_equal(findings[count - 1].code, "cut-short");
    lint_free(lint);
    ruleset_unref(rules);
    rule_list_done(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_rules_have_no_findings),
        cmocka_unit_test(a_none_that_a_broader_grant_beats_is_an_error),
        cmocka_unit_test(a_none_hidden_by_another_is_only_superfluous),
        cmocka_unit_test(rules_that_can_never_win_are_found),
        cmocka_unit_test(a_none_that_is_partly_outranked_is_a_warning),
        cmocka_unit_test(opening_the_secrets_of_a_preset_is_told_once),
        cmocka_unit_test(patterns_that_match_nothing_are_found_only_with_a_codebase),
        cmocka_unit_test(wildcards_in_exact_rules_are_pointed_out),
        cmocka_unit_test(ten_thousand_rules_are_linted_in_bounded_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
