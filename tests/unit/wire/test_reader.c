#include "fixture.h"

#include "wire/reader.h"
#include "wire/writer.h"

static void what_is_written_is_read(void **state)
{
    uint8_t bytes[64];
    struct writer w;
    struct reader r;

    (void) state;
    writer_init(&w, bytes, sizeof(bytes));
    writer_u8(&w, 0xfe);
    writer_u16(&w, 0xfedc);
    writer_u32(&w, 0xfedcba98);
    writer_u64(&w, 0xfedcba9876543210);
    writer_bytes(&w, "text", 4);
    writer_bytes(&w, NULL, 0);
    assert_int_equal(writer_end(&w), 0);
    assert_int_equal(w.len, 19);

    reader_init(&r, bytes, w.len);
    assert_int_equal(reader_u8(&r), 0xfe);
    assert_int_equal(reader_u16(&r), 0xfedc);
    assert_int_equal(reader_u32(&r), 0xfedcba98);
    assert_true(reader_u64(&r) == 0xfedcba9876543210);
    assert_memory_equal(reader_bytes(&r, 4), "text", 4);
    assert_int_equal(reader_end(&r), 0);
}

static void numbers_are_little_endian(void **state)
{
    uint8_t bytes[4];
    struct writer w;

    (void) state;
    writer_init(&w, bytes, sizeof(bytes));
    writer_u32(&w, 0x01020304);
    assert_memory_equal(bytes, "\x04\x03\x02\x01", 4);
}

static void bytes_left_over_are_refused(void **state)
{
    struct reader r;

    (void) state;
    reader_init(&r, "abc", 3);
    reader_u16(&r);
    assert_int_equal(reader_end(&r), -EPROTO);
    reader_u8(&r);
    assert_int_equal(reader_end(&r), 0);
}

static void what_is_missing_reads_as_zero_and_fails_for_good(void **state)
{
    struct reader r;

    (void) state;
    reader_init(&r, "\xff\xff\xff", 3);
    assert_int_equal(reader_u32(&r), 0);
    assert_int_equal(reader_u8(&r), 0);
    assert_null(reader_bytes(&r, 0));
    assert_int_equal(reader_end(&r), -EPROTO);
    reader_init(&r, NULL, 0);
    assert_int_equal(reader_end(&r), 0);
    assert_null(reader_bytes(&r, SIZE_MAX));
    assert_int_equal(reader_end(&r), -EPROTO);
}

static void a_refusal_cannot_be_undone(void **state)
{
    struct reader r;

    (void) state;
    reader_init(&r, "abc", 3);
    reader_fail(&r);
    assert_null(reader_bytes(&r, 1));
    assert_int_equal(reader_end(&r), -EPROTO);
}

static void strings_end_with_their_nul(void **state)
{
    uint8_t bytes[16];
    struct writer w;
    struct reader r;

    (void) state;
    writer_init(&w, bytes, sizeof(bytes));
    writer_string(&w, "abc");
    writer_string(&w, "");
    writer_bytes(&w, "xy", 2);
    reader_init(&r, bytes, w.len);
    assert_string_equal(reader_string(&r, 4), "abc");
    assert_string_equal(reader_string(&r, SIZE_MAX), "");
    assert_null(reader_string(&r, SIZE_MAX));
    assert_int_equal(reader_end(&r), -EPROTO);
    reader_init(&r, bytes, w.len);
    assert_null(reader_string(&r, 3)); /* its NUL is the fourth byte */
    assert_null(reader_string(&r, SIZE_MAX));
    assert_int_equal(reader_end(&r), -EPROTO);
    reader_init(&r, NULL, 0);
    assert_null(reader_string(&r, SIZE_MAX));
}

static void what_does_not_fit_is_not_written(void **state)
{
    uint8_t bytes[4] = { 0, 0, 0, 0x55 };
    struct writer w;

    (void) state;
    writer_init(&w, bytes, 3);
    writer_u16(&w, 0x1111);
    writer_u16(&w, 0x2222);
    writer_u8(&w, 0x33);
    assert_int_equal(writer_end(&w), -EMSGSIZE);
    assert_memory_equal(bytes, "\x11\x11\x00\x55", 4);
    writer_init(&w, bytes, 3);
    writer_bytes(&w, bytes, SIZE_MAX);
    assert_int_equal(writer_end(&w), -EMSGSIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),          cmocka_unit_test(numbers_are_little_endian),
        cmocka_unit_test(bytes_left_over_are_refused),      cmocka_unit_test(what_is_missing_reads_as_zero_and_fails_for_good),
        cmocka_unit_test(strings_end_with_their_nul),       cmocka_unit_test(a_refusal_cannot_be_undone),
        cmocka_unit_test(what_does_not_fit_is_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
