#include "fixture.h"

#include "base/buf.h"
#include "base/size.h"

/* The value is in the text, with what could harm a terminal escaped. */
static void assert_names(const struct err *err, const char *value)
{
    autodone(buf) struct buf quoted = BUF_EMPTY;

    buf_add_char(&quoted, '\'');
    buf_add_escaped(&quoted, value, strlen(value));
    buf_add_char(&quoted, '\'');
    assert_non_null(strstr(err->text, quoted.data));
}

static void sizes_are_read_as_people_type_them(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        { "0", 0 },
        { "123", 123 },
        { "123B", 123 },
        { "100k", 102400 },
        { "100K", 102400 },
        { "512M", 512ull << 20 },
        { "512m", 512ull << 20 },
        { "512MB", 512ull << 20 },
        { "512MiB", 512ull << 20 },
        { "1G", 1ull << 30 },
        { "1.5GiB", 3ull << 29 },
        { "0.5k", 512 },
        { "0.0001k", 0 },
        { "2T", 2ull << 40 },
        { "3P", 3ull << 50 },
        { "7E", 7ull << 60 },
        { "7.999999999999999999E", 9223372036854775806ull },
        { "9223372036854775807", INT64_MAX },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t bytes = 1;

        if (size_parse(cases[i].text, &bytes, NULL) != 0 || bytes != cases[i].bytes)
            fail_msg("'%s' was read as %llu", cases[i].text, (unsigned long long) bytes);
    }
}

static void junk_is_no_size(void **state)
{
    static const char *const bad[] = { "",
                                       "M",
                                       "-1",
                                       "+1",
                                       " 1",
                                       "1 ",
                                       "1 M",
                                       "1.5",
                                       "1.5B",
                                       "1.M",
                                       ".5M",
                                       "1,5M",
                                       "0x10",
                                       "1e3",
                                       "1MM",
                                       "1Mi",
                                       "1X",
                                       "1Bi",
                                       "1iB",
                                       "1MBB",
                                       "1.2.3M",
                                       "unlimited",
                                       "1.0000000000000000001M",
                                       "1M\n",
                                       "\x1b[2J1M",
                                       "1\xff" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = ERR_NONE;
        uint64_t bytes = 77;

        if (size_parse(bad[i], &bytes, &err) != -EINVAL)
            fail_msg("'%s' was taken for a size", bad[i]);
        assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
        assert_names(&err, bad[i]);
        assert_int_equal(bytes, 77);
    }
}

static void a_size_that_does_not_fit_is_refused_by_name(void **state)
{
    static const char *const bad[] = { "8E", "9223372036854775808", "99999999999999999999999", "9000000000G", "8192P" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = ERR_NONE;
        uint64_t bytes = 77;

        assert_int_equal(size_parse(bad[i], &bytes, &err), -ERANGE);
        assert_names(&err, bad[i]);
        assert_int_equal(bytes, 77);
    }
}

static void sizes_print_for_people(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        { 0, "0 B" },
        { 1023, "1023 B" },
        { 1024, "1.0 KB" },
        { 1536, "1.5 KB" },
        { 1048575, "1.0 MB" }, /* not 1024.0 KB */
        { 1048576, "1.0 MB" },
        { 3ull << 30, "3.0 GB" },
        { 1ull << 40, "1.0 TB" },
        { 1ull << 50, "1.0 PB" },
        { UINT64_MAX, "16.0 EB" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[SIZE_TEXT_MAX];

        size_format(cases[i].bytes, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_as_people_type_them),
        cmocka_unit_test(junk_is_no_size),
        cmocka_unit_test(a_size_that_does_not_fit_is_refused_by_name),
        cmocka_unit_test(sizes_print_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
