#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "rest/base64.h"

static void test_bytes_come_back(void **state)
{
    uint8_t bytes[300], back[BASE64_DECODED_MAX(400)];
    (void) state;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t) (i * 7 + 251);
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        autodone(buf) struct buf text = BUF_EMPTY;

        base64_add(&text, bytes, len);
        assert_int_equal(text.len, (len + 2) / 3 * 4);
        assert_int_equal(base64_decode(text.data ? text.data : "", text.len, back), len);
        assert_memory_equal(bytes, back, len);
    }
}

static void test_both_alphabets_padded_or_not(void **state)
{
    static const char *const texts[] = { "+/8=", "-_8=", "+/8", "-_8", "+_8" };
    uint8_t out[8];
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_int_equal(base64_decode(texts[i], strlen(texts[i]), out), 2);
        assert_memory_equal(out, "\xFB\xFF", 2);
    }
}

static void test_what_is_no_base64_is_refused(void **state)
{
    static const char *const texts[] = { "A",    "AAAAA", "AA=",    "=",    "==",   "A===",     "AAAA=",
                                         "A=AA", "AA A",  "AA\n==", "AB==", "AAB=", "AA==AA==", "\xC3\xA9 AA" };
    uint8_t out[16];
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_int_equal(base64_decode(texts[i], strlen(texts[i]), out), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_come_back),
        cmocka_unit_test(test_both_alphabets_padded_or_not),
        cmocka_unit_test(test_what_is_no_base64_is_refused),
    };
    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
