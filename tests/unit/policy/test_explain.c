#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "policy/explain.h"

#include "rules_from_text.h"

static struct explanation *explain(const char *text, const char *path)
{
    struct ruleset *rules = ruleset_from_text(text, false);
    struct explanation *e = NULL;

    assert_int_equal(explain_path(rules, path, &e, NULL), 0);
    ruleset_unref(rules);
    return e;
}

static void assert_reason(const struct explanation *e, size_t rule, const char *reason)
{
    for (size_t i = 0; i < e->other_count; i++) {
        if (e->others[i].rule == rule - 1) {
            assert_string_equal(e->others[i].reason, reason);
            return;
        }
    }
    fail_msg("rule %zu is not listed", rule);
}

static void the_winner_and_every_loser_are_named_with_the_reason(void **state)
{
    autoptr(explanation) e =
                explain("**/*=read; /a/**=read; /a/*.log=view; /a/=read; file:/a/x.log=write; **/*.log=none@-1", "/a/x.log");

    (void) state;
    assert_int_equal(e->level, LEVEL_WRITE);
    assert_int_equal(e->cause, EXPLAIN_GRANTED);
    assert_int_equal(e->rule, 4);
    assert_int_equal(e->other_count, 5);
    assert_reason(e, 1, "lower kind: glob against file");
    assert_reason(e, 4, "lower kind: directory against file");
    assert_reason(e, 6, "lower priority: -1 against 0");
}

static void specificity_is_told_by_what_made_the_difference(void **state)
{
    autoptr(explanation) e = explain("**/*=read; /*/x.log=read; /a*/x.log=view; /a*/*=read", "/ab/x.log");
    autoptr(explanation) tie = explain("**/*=read; **/*=view", "/x");

    (void) state;
    assert_int_equal(e->rule, 2);
    assert_reason(e, 1, "less specific: begins with **, the winner does not");
    assert_reason(e, 2, "less specific: shorter literal beginning");
    assert_reason(e, 4, "less specific: fewer literal characters");
    assert_reason(tie, 1, "less specific: equally specific, but earlier in the list");
}

static void hiding_and_exceptions_are_told_apart(void **state)
{
    autoptr(explanation) hidden = explain("**/*=read; /s/**=none", "/s/x");
    autoptr(explanation) shown = explain("/s/**=none; /s/p/**=read", "/s/p/x");
    autoptr(explanation) later = explain("/s/**=read; /s/**=none", "/s/x");

    (void) state;
    assert_int_equal(hidden->cause, EXPLAIN_HIDDEN);
    assert_reason(hidden, 1, "no exception: it is not contained in the rule that hides");
    assert_int_equal(shown->cause, EXPLAIN_GRANTED);
    assert_reason(shown, 1, "the winner is contained in it: an exception");
    assert_reason(later, 1, "names the same paths earlier in the list");
}

static void the_directory_that_hides_is_named(void **state)
{
    autoptr(explanation) e = explain("**/.ssh=none; **/*=read", "/home/.ssh/config/x");

    (void) state;
    assert_int_equal(e->level, LEVEL_NONE);
    assert_int_equal(e->cause, EXPLAIN_BENEATH);
    assert_string_equal(e->hidden_dir, "/home/.ssh");
    assert_int_equal(e->rule, 0);
}

static void an_unmatched_path_has_no_rule(void **state)
{
    autoptr(explanation) e = explain("/src/a.c=read", "/src");
    autoptr(explanation) dead = explain("/src/a.c=read", "/docs");

    (void) state;
    assert_int_equal(e->cause, EXPLAIN_UNMATCHED);
    assert_int_equal(e->rule, EXPLAIN_NO_RULE);
    assert_true(e->may_be_passage);
    assert_false(dead->may_be_passage);
}

static void paths_are_cleaned_and_must_stay_inside(void **state)
{
    struct ruleset *rules = ruleset_from_text("**/*=read", false);
    autoptr(explanation) e = explain("**/*=read", "a//b/./c/");
    struct explanation *none = NULL;
    struct err err = ERR_NONE;

    (void) state;
    assert_string_equal(e->path, "/a/b/c");
    assert_int_equal(explain_path(rules, "../x", &none, &err), -EINVAL);
    assert_non_null(strstr(err.text, "path '../x' is empty or leaves the workspace"));
    assert_int_equal(explain_path(rules, "", &none, &err), -EINVAL);
    assert_null(none);
    ruleset_unref(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_winner_and_every_loser_are_named_with_the_reason),
        cmocka_unit_test(specificity_is_told_by_what_made_the_difference),
        cmocka_unit_test(hiding_and_exceptions_are_told_apart),
        cmocka_unit_test(the_directory_that_hides_is_named),
        cmocka_unit_test(an_unmatched_path_has_no_rule),
        cmocka_unit_test(paths_are_cleaned_and_must_stay_inside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
