#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "rest/url.h"

static void test_percent_signs_are_decoded(void **state)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    (void) state;

    assert_int_equal(url_decode("a%2Fb%20%C3%a9+", 15, false, &out, NULL), 0);
    assert_string_equal(out.data, "a/b \xC3\xA9+");
    buf_clear(&out);
    assert_int_equal(url_decode("a+b", 3, true, &out, NULL), 0);
    assert_string_equal(out.data, "a b");
}

static void test_what_is_malformed_is_refused(void **state)
{
    static const char *const wrong[] = { "%", "%2", "%zz", "%2g", "a%00b", "%ff", "%c0%af", "%ed%a0%80", "a%" };
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        autodone(buf) struct buf out = BUF_EMPTY;
        assert_int_equal(url_decode(wrong[i], strlen(wrong[i]), false, &out, NULL), -EINVAL);
    }
}

static void test_a_query_is_taken_apart(void **state)
{
    autodone(buf) struct buf name = BUF_EMPTY;
    autodone(buf) struct buf value = BUF_EMPTY;
    static const char query[] = "&a=1&&b&=c&d=x=y%26&";
    static const char *const pairs[][2] = { { "a", "1" }, { "b", "" }, { "", "c" }, { "d", "x=y&" } };
    const char *at = query;
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        assert_int_equal(url_next_pair(&at, query + strlen(query), &name, &value, NULL), 1);
        assert_string_equal(name.data ? name.data : "", pairs[i][0]);
        assert_string_equal(value.data ? value.data : "", pairs[i][1]);
    }
    assert_int_equal(url_next_pair(&at, query + strlen(query), &name, &value, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percent_signs_are_decoded),
        cmocka_unit_test(test_what_is_malformed_is_refused),
        cmocka_unit_test(test_a_query_is_taken_apart),
    };
    return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
