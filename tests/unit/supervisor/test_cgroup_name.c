#include "supervisor/cgroup_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static void it_ends_in_the_sandboxs_name(void **state)
{
    char name[CGROUP_NAME_MAX];

    (void) state;
    cgroup_name_make("/tmp", "shop-x3kf", name);
    assert_int_equal(strlen(name), CGROUP_NAME_MARK + strlen("shop-x3kf"));
    assert_string_equal(name + CGROUP_NAME_MARK, "shop-x3kf");
    assert_ptr_equal(cgroup_name_sandbox("/tmp", name), name + CGROUP_NAME_MARK);
}

static void another_home_does_not_know_it(void **state)
{
    char name[CGROUP_NAME_MAX];

    (void) state;
    cgroup_name_make("/tmp", "box", name);
    assert_null(cgroup_name_sandbox("/usr", name));
    assert_null(cgroup_name_sandbox("/nonexistent", name));
}

static void the_longest_name_fits(void **state)
{
    char sandbox[SANDBOX_NAME_MAX], name[CGROUP_NAME_MAX];

    (void) state;
    memset(sandbox, 'x', sizeof(sandbox) - 1);
    sandbox[sizeof(sandbox) - 1] = '\0';
    cgroup_name_make("/tmp", sandbox, name);
    assert_string_equal(cgroup_name_sandbox("/tmp", name), sandbox);
}

static void what_is_no_name_of_a_sandbox_is_nobodys(void **state)
{
    char name[CGROUP_NAME_MAX];

    (void) state;
    cgroup_name_make("/tmp", "../x", name);
    assert_null(cgroup_name_sandbox("/tmp", name));
    cgroup_name_make("/tmp", "", name);
    assert_null(cgroup_name_sandbox("/tmp", name));
    assert_null(cgroup_name_sandbox("/tmp", "box"));
    assert_null(cgroup_name_sandbox("/tmp", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_ends_in_the_sandboxs_name),
        cmocka_unit_test(another_home_does_not_know_it),
        cmocka_unit_test(the_longest_name_fits),
        cmocka_unit_test(what_is_no_name_of_a_sandbox_is_nobodys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
