#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "rpc/metadata.h"

static void add(struct metadata *metadata, const char *name, const char *value)
{
    metadata_add(metadata, name, strlen(name), value, strlen(value));
}

static void the_first_of_a_name_is_found(void **state)
{
    struct metadata metadata = { .size_max = 10000 };
    (void) state;

    add(&metadata, "a", "1");
    add(&metadata, "b", "");
    add(&metadata, "a", "2");
    add(&metadata, "c-bin", "aGk=");
    add(&metadata, "d-bin", "aGk");
    add(&metadata, "e-bin", "*");
    assert_string_equal(metadata_get(&metadata, "a"), "1");
    assert_string_equal(metadata_get(&metadata, "b"), "");
    assert_string_equal(metadata_get(&metadata, "c-bin"), "hi");
    assert_string_equal(metadata_get(&metadata, "d-bin"), "hi");
    assert_null(metadata_get(&metadata, "e-bin"));
    assert_null(metadata_get(&metadata, "f"));
    metadata_done(&metadata);
}

static void only_so_much_is_kept(void **state)
{
    struct metadata metadata = { .size_max = 100 };
    (void) state;

    add(&metadata, "aaaa", "0123456789012345678901234567890123456789012345678901234567890123");
    assert_false(metadata.is_too_large);
    add(&metadata, "b", "");
    assert_true(metadata.is_too_large);
    assert_null(metadata_get(&metadata, "b"));
    metadata_done(&metadata);
    metadata.size_max = 1000000;
    for (int i = 0; i <= METADATA_FIELDS_MAX; i++)
        add(&metadata, "n", "v");
    assert_true(metadata.is_too_large);
    metadata_done(&metadata);
}

static void timeouts_are_read(void **state)
{
    static const char *const bad[] = { "", "1", "S", "-1S", "1 S", "1SS", "123456789S", "1s", "0x1S", "+1S" };
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = { { "1S", CLOCK_NS_PER_SEC },
                 { "20m", 20 * CLOCK_NS_PER_MS },
                 { "3u", 3000 },
                 { "0n", 0 },
                 { "99999999n", 99999999 },
                 { "2H", 7200 * CLOCK_NS_PER_SEC },
                 { "1M", 60 * CLOCK_NS_PER_SEC },
                 { "99999999H", INT64_MAX } };
    int64_t ns;
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(metadata_parse_timeout(bad[i], &ns), -EINVAL);
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(metadata_parse_timeout(good[i].text, &ns), 0);
        assert_true(ns == good[i].ns);
    }
}

static void texts_are_written_as_grpc_does(void **state)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    (void) state;

    metadata_add_percent(&out, "50 % gr\xc3\xbc\xc3\x9f"
                               "e\n");
    assert_string_equal(out.data, "50 %25 gr%C3%BC%C3%9Fe%0A");
    buf_clear(&out);
    metadata_add_base64(&out, "", 0);
    assert_int_equal(out.len, 0);
    metadata_add_base64(&out, "hi", 2);
    assert_string_equal(out.data, "aGk");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_a_name_is_found),
        cmocka_unit_test(only_so_much_is_kept),
        cmocka_unit_test(timeouts_are_read),
        cmocka_unit_test(texts_are_written_as_grpc_does),
    };
    return cmocka_run_group_tests_name("metadata", tests, NULL, NULL);
}
