#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "rest/decimal.h"

static void check(const char *text, int scale, int r, int64_t value)
{
    __int128 got = 0;

    assert_int_equal(decimal_parse(text, strlen(text), scale, &got), r);
    if (r == 0)
        assert_true(got == value);
}

static void test_numbers_are_read_exactly(void **state)
{
    (void) state;
    check("0", 0, 0, 0);
    check("-0", 0, 0, 0);
    check("-0.0e-99999999999999", 0, 0, 0);
    check("9223372036854775807", 0, 0, INT64_MAX);
    check("-9223372036854775808", 0, 0, INT64_MIN);
    check("1e3", 0, 0, 1000);
    check("1.20e1", 0, 0, 12);
    check("1000E-3", 0, 0, 1);
    check("1.5", 9, 0, 1500000000);
    check("0.000000001", 9, 0, 1);
    check("3e-9", 9, 0, 3);
}

static void test_what_is_no_whole_number_is_told(void **state)
{
    (void) state;
    check("1.5", 0, -EDOM, 0);
    check("1e-1", 0, -EDOM, 0);
    check("0.0000000001", 9, -EDOM, 0);
    check("1e-99999999999999999999", 9, -EDOM, 0);
}

static void test_what_is_too_large_is_told(void **state)
{
    (void) state;
    check("1e30", 0, -ERANGE, 0);
    check("1e999999999999999999999", 0, -ERANGE, 0);
    check("1000000000000000000000000000000", 0, -ERANGE, 0);
}

static void test_what_json_does_not_write_is_no_number(void **state)
{
    static const char *const wrong[] = { "",     "-",  "+1", "01",  "1.",  ".5",   "1e", "1e+",
                                         "0x10", "1 ", " 1", "1_0", "--1", "1.e3", "NaN" };
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_false(decimal_is_number(wrong[i], strlen(wrong[i])));
        check(wrong[i], 0, -EINVAL, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_read_exactly),
        cmocka_unit_test(test_what_is_no_whole_number_is_told),
        cmocka_unit_test(test_what_is_too_large_is_told),
        cmocka_unit_test(test_what_json_does_not_write_is_no_number),
    };
    return cmocka_run_group_tests_name("decimal", tests, NULL, NULL);
}
