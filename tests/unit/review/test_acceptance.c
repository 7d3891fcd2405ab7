#include "review/acceptance.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool allows(const char *glob, const char *path)
{
    autodone(acceptance) struct acceptance a = { 0 };

    acceptance_add_glob(&a.allow, glob);
    return acceptance_check(&a, path, false).status == ACCEPTANCE_ACCEPTED;
}

static void a_glob_matches_by_segments(void **state)
{
    (void) state;
    assert_true(allows("src/*.c", "src/a.c"));
    assert_false(allows("src/*.c", "src/d/a.c"));
    assert_false(allows("src/*.c", "x/src/a.c"));
    assert_true(allows("src/[ab]?.c", "src/b1.c"));
    assert_true(allows("a\\*b", "a*b"));
    assert_false(allows("a\\*b", "axb"));
    assert_false(allows("src", "src/a.c"));
    assert_false(allows("{a,b}", "a"));
}

static void two_stars_stand_for_any_number_of_segments(void **state)
{
    (void) state;
    assert_true(allows("**", "a"));
    assert_true(allows("**/*.c", "a.c"));
    assert_true(allows("**/*.c", "d/e/a.c"));
    assert_true(allows("src/**", "src/a/b"));
    assert_true(allows("src/**", "src"));
    assert_false(allows("src/**", "srcs/a"));
    assert_true(allows("a/**/b/**/c", "a/x/b/y/b/z/c"));
    assert_false(allows("a/**/b/**/c", "a/x/y/c"));
    assert_true(allows("**/**/x", "x"));
    /* Within a segment they are two stars. */
    assert_true(allows("a**b", "axxb"));
}

static void slashes_around_a_glob_do_not_count(void **state)
{
    (void) state;
    assert_true(allows("/src/a.c", "src/a.c"));
    assert_true(allows("./src/a.c", "src/a.c"));
    assert_true(allows("src/a.c/", "src/a.c"));
}

static void a_glob_that_cannot_be_read_matches_nothing(void **state)
{
    autodone(acceptance) struct acceptance a = { 0 };

    (void) state;
    assert_int_equal(acceptance_add_glob(&a.allow, "src/[a"), 1);
    assert_int_equal(acceptance_add_glob(&a.deny, ""), 1);
    assert_int_equal(acceptance_check(&a, "src/a", false).status, ACCEPTANCE_IGNORED);
    assert_int_equal(acceptance_check(&a, "src/[a", false).status, ACCEPTANCE_IGNORED);
    assert_int_equal(acceptance_add_glob(&a.allow, "src/*"), 0);
    assert_int_equal(acceptance_check(&a, "src/a", false).status, ACCEPTANCE_ACCEPTED);
}

static void nothing_said_accepts_all(void **state)
{
    autodone(acceptance) struct acceptance a = { 0 };
    struct acceptance_verdict verdict = acceptance_check(&a, "any/thing", true);

    (void) state;
    assert_int_equal(verdict.status, ACCEPTANCE_ACCEPTED);
    assert_null(verdict.rule);
}

static void denial_comes_first_and_names_its_rule(void **state)
{
    autodone(acceptance) struct acceptance a = { 0 };
    struct acceptance_verdict verdict;

    (void) state;
    acceptance_add_glob(&a.allow, "src/**");
    acceptance_add_glob(&a.deny, "docs/**");
    acceptance_add_glob(&a.deny, "./src/secret/**");
    verdict = acceptance_check(&a, "src/secret/key", false);
    assert_int_equal(verdict.status, ACCEPTANCE_DENIED);
    assert_string_equal(verdict.rule, "./src/secret/**");
    verdict = acceptance_check(&a, "src/x", false);
    assert_int_equal(verdict.status, ACCEPTANCE_ACCEPTED);
    assert_string_equal(verdict.rule, "src/**");
    verdict = acceptance_check(&a, "test/x", false);
    assert_int_equal(verdict.status, ACCEPTANCE_IGNORED);
    assert_null(verdict.rule);
    assert_non_null(verdict.reason);
}

static void globs_and_extensions_must_both_be_met(void **state)
{
    autodone(acceptance) struct acceptance a = { 0 };

    (void) state;
    acceptance_add_glob(&a.allow, "src/**");
    acceptance_add_extension(&a.allow, "py");
    acceptance_add_extension(&a.allow, ".TS");
    assert_int_equal(acceptance_check(&a, "src/a.PY", false).status, ACCEPTANCE_ACCEPTED);
    assert_int_equal(acceptance_check(&a, "src/a.d.ts", false).status, ACCEPTANCE_ACCEPTED);
    assert_int_equal(acceptance_check(&a, "src/a.c", false).status, ACCEPTANCE_IGNORED);
    assert_int_equal(acceptance_check(&a, "src.py/a", false).status, ACCEPTANCE_IGNORED);
    assert_int_equal(acceptance_check(&a, "test/a.py", false).status, ACCEPTANCE_IGNORED);
    acceptance_add_extension(&a.deny, ".env");
    assert_int_equal(acceptance_check(&a, ".env", false).status, ACCEPTANCE_DENIED);
    assert_string_equal(acceptance_check(&a, ".env", false).rule, ".env");
}

static void binary_files_are_ignored_before_all_else(void **state)
{
    autodone(acceptance) struct acceptance a = { .ignores_binary = true };

    (void) state;
    acceptance_add_glob(&a.deny, "**");
    assert_int_equal(acceptance_check(&a, "a", true).status, ACCEPTANCE_BINARY_IGNORED);
    assert_int_equal(acceptance_check(&a, "a", false).status, ACCEPTANCE_DENIED);
    assert_string_equal(acceptance_status_name(ACCEPTANCE_BINARY_IGNORED), "binary_ignored");
}

static void too_many_globs_are_refused(void **state)
{
    autodone(acceptance) struct acceptance a = { 0 };

    (void) state;
    for (int i = 0; i < ACCEPTANCE_GLOBS_MAX; i++)
        assert_int_equal(acceptance_add_glob(&a.allow, "**/**/a/**/b"), 0);
    assert_int_equal(acceptance_add_glob(&a.allow, "a"), -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_glob_matches_by_segments),
        cmocka_unit_test(two_stars_stand_for_any_number_of_segments),
        cmocka_unit_test(slashes_around_a_glob_do_not_count),
        cmocka_unit_test(a_glob_that_cannot_be_read_matches_nothing),
        cmocka_unit_test(nothing_said_accepts_all),
        cmocka_unit_test(denial_comes_first_and_names_its_rule),
        cmocka_unit_test(globs_and_extensions_must_both_be_met),
        cmocka_unit_test(binary_files_are_ignored_before_all_else),
        cmocka_unit_test(too_many_globs_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
