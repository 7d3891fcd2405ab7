#include "supervisor/environment.h"

#include "fixture.h"

static const char *get(const struct environment *environment, const char *name)
{
    size_t len = strlen(name);
    const char *found = NULL;

    for (size_t i = 0; environment->vars[i]; i++) {
        if (strncmp(environment->vars[i], name, len) == 0 && environment->vars[i][len] == '=') {
            assert_null(found); /* each once */
            found = environment->vars[i] + len + 1;
        }
    }
    return found;
}

static void later_ones_hold(void **state)
{
    autodone(environment) struct environment environment;
    char a[] = "A=sandbox", b[] = "B=sandbox", home[] = "HOME=/elsewhere";
    char *env[] = { a, b, home };
    struct sandbox_spec spec = { .env = env, .env_count = 3 };
    const char *more[] = { "B=command", "C=", "AB=1", NULL };

    (void) state;
    environment_init(&environment, &spec, more);
    assert_string_equal(get(&environment, "A"), "sandbox");
    assert_string_equal(get(&environment, "B"), "command");
    assert_string_equal(get(&environment, "C"), "");
    assert_string_equal(get(&environment, "AB"), "1");
    assert_string_equal(get(&environment, "HOME"), "/elsewhere");
    assert_string_equal(get(&environment, "USER"), "agent");
    assert_int_equal(environment.count, 7 + 4);
    assert_null(environment.vars[environment.count]);
}

static void what_is_no_assignment_is_left_out(void **state)
{
    autodone(environment) struct environment environment;
    struct sandbox_spec spec = { 0 };
    const char *more[] = { "", "=", "=x", "NOVALUE", NULL };

    (void) state;
    environment_init(&environment, &spec, more);
    assert_int_equal(environment.count, 7);
}

static void there_may_be_many(void **state)
{
    autodone(environment) struct environment environment;
    struct sandbox_spec spec = { 0 };
    char text[32];

    (void) state;
    environment_init(&environment, &spec, NULL);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 500; i++) {
            snprintf(text, sizeof(text), "V%d=%d", i, i + round);
            environment_set(&environment, text);
        }
    }
    assert_int_equal(environment.count, 507);
    assert_string_equal(get(&environment, "V499"), "500");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_ones_hold),
        cmocka_unit_test(what_is_no_assignment_is_left_out),
        cmocka_unit_test(there_may_be_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
