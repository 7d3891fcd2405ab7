#include "sandbox/engine_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static void expect(const char *host, const char *path)
{
    struct err err = ERR_NONE;
    autofree char *found = NULL;

    if (engine_path_parse(host, &found, &err) < 0)
        fail_msg("%s: %s", host, err.text);
    assert_string_equal(found, path);
}

static void expect_refusal(const char *host)
{
    struct err err = ERR_NONE;
    char *found = NULL;

    assert_true(engine_path_parse(host, &found, &err) < 0);
    assert_null(found);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
}

static void test_a_path_and_a_unix_address_are_the_same(void **state)
{
    (void) state;
    setenv("DOCKER_HOST", "unix:///else/where", 1);
    expect("/run/own.sock", "/run/own.sock");
    expect("unix:///run/own.sock", "/run/own.sock");
    unsetenv("DOCKER_HOST");
}

static void test_without_one_it_is_where_clients_look(void **state)
{
    (void) state;
    unsetenv("DOCKER_HOST");
    expect("", ENGINE_PATH_USUAL);
    setenv("DOCKER_HOST", "unix:///run/user/docker.sock", 1);
    expect("", "/run/user/docker.sock");
    unsetenv("DOCKER_HOST");
}

/* A server that runs no container must not fail because of a variable that is for somebody else. */
static void test_a_variable_that_names_an_engine_elsewhere_says_nothing_of_ours(void **state)
{
    (void) state;
    setenv("DOCKER_HOST", "tcp://far.example:2376", 1);
    expect("", ENGINE_PATH_USUAL);
    setenv("DOCKER_HOST", "", 1);
    expect("", ENGINE_PATH_USUAL);
    unsetenv("DOCKER_HOST");
}

static void test_an_engine_elsewhere_is_refused(void **state)
{
    char longest[200];
    (void) state;

    expect_refusal("tcp://127.0.0.1:2375");
    expect_refusal("unix://relative");
    expect_refusal("docker.sock");
    memset(longest, 'a', sizeof(longest));
    longest[0] = '/';
    longest[sizeof(longest) - 1] = '\0';
    expect_refusal(longest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_path_and_a_unix_address_are_the_same),
        cmocka_unit_test(test_without_one_it_is_where_clients_look),
        cmocka_unit_test(test_a_variable_that_names_an_engine_elsewhere_says_nothing_of_ours),
        cmocka_unit_test(test_an_engine_elsewhere_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
