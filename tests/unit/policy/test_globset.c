#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "policy/globset.h"

/* Random globs over a few letters, one of two bytes and a stray byte. */
static const char *const bits[] = { "a", "b", "c", "*", "*", "?", "[ab]", "[!a]", "\xc3\xa9", "\xff", "[\xc3\xa0-\xc3\xbf]" };
static const char *const name_bits[] = { "a", "b", "c", "x", "\xc3\xa9", "\xff", "\xc3" };

#define GLOBS 300

static uint32_t random_state = 12345;

static uint32_t rnd(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static void on_match(uint32_t target, void *cookie)
{
    bool *seen = cookie;

    assert_false(seen[target]);
    seen[target] = true;
}

/* Matching all at once must give the same as glob_matches() for each. */
static void agrees_with_single_globs(size_t budget_bytes)
{
    struct budget budget = { budget_bytes };
    autoptr(globset) set = globset_new(&budget);
    struct glob *globs = xalloc(GLOBS * sizeof(*globs));
    int matched = 0;

    for (uint32_t i = 0; i < GLOBS; i++) {
        char text[64] = "";
        for (uint32_t k = 1 + rnd(6); k > 0; k--)
            strcat(text, bits[rnd(ARRAY_LEN(bits))]);
        assert_int_equal(glob_parse(text, strlen(text), &globs[i], NULL), 0);
        globset_add(set, &globs[i], i);
    }
    globset_seal(set);
    for (int n = 0; n < 3000; n++) {
        bool seen[GLOBS] = { false };
        char name[64] = "";
        for (uint32_t k = 1 + rnd(8); k > 0; k--)
            strcat(name, name_bits[rnd(ARRAY_LEN(name_bits))]);
        globset_match(set, name, strlen(name), on_match, seen);
        for (int i = 0; i < GLOBS; i++) {
            assert_int_equal(seen[i], glob_matches(&globs[i], name, strlen(name)));
            matched += seen[i];
        }
    }
    assert_true(matched > 10000);
    for (int i = 0; i < GLOBS; i++)
        glob_done(&globs[i]);
    free(globs);
}

static void all_globs_at_once_match_what_each_matches(void **state)
{
    (void) state;
    agrees_with_single_globs((size_t) 64 << 20);
}

static void nothing_changes_when_the_budget_runs_out(void **state)
{
    (void) state;
    agrees_with_single_globs(20000);
}

static void nothing_changes_without_any_budget(void **state)
{
    (void) state;
    agrees_with_single_globs(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_globs_at_once_match_what_each_matches),
        cmocka_unit_test(nothing_changes_when_the_budget_runs_out),
        cmocka_unit_test(nothing_changes_without_any_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
