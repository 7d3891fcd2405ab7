#include "fixture.h"

#include "base/buf.h"
#include "base/clock.h"

/* The value is in the text, with what could harm a terminal escaped. */
static void assert_names(const struct err *err, const char *value)
{
    autodone(buf) struct buf quoted = BUF_EMPTY;

    buf_add_char(&quoted, '\'');
    buf_add_escaped(&quoted, value, strlen(value));
    buf_add_char(&quoted, '\'');
    assert_non_null(strstr(err->text, quoted.data));
}

static void monotonic_time_does_not_go_back(void **state)
{
    int64_t before = clock_now_ns();

    (void) state;
    for (int i = 0; i < 1000; i++) {
        int64_t now = clock_now_ns();

        assert_true(now >= before);
        before = now;
    }
    assert_true(clock_wall_ns() > 1700000000LL * CLOCK_NS_PER_SEC);
}

static void points_in_time_print_as_protobuf_prints_them(void **state)
{
    static const struct {
        struct timespec t;
        int digits;
        const char *text;
    } cases[] = {
        { { 0, 0 }, CLOCK_DIGITS_FEWEST, "1970-01-01T00:00:00Z" },
        { { 1767323045, 678000000 }, 3, "2026-01-02T03:04:05.678Z" },
        { { 1767323045, 678999999 }, 3, "2026-01-02T03:04:05.678Z" },
        { { 1767323045, 0 }, 3, "2026-01-02T03:04:05.000Z" },
        { { 1767323045, 5000000 }, CLOCK_DIGITS_FEWEST, "2026-01-02T03:04:05.005Z" },
        { { 1767323045, 5000 }, CLOCK_DIGITS_FEWEST, "2026-01-02T03:04:05.000005Z" },
        { { 1767323045, 5 }, CLOCK_DIGITS_FEWEST, "2026-01-02T03:04:05.000000005Z" },
        { { 1767323045, 5 }, 0, "2026-01-02T03:04:05Z" },
        { { -1, 999999999 }, CLOCK_DIGITS_FEWEST, "1969-12-31T23:59:59.999999999Z" },
        { { -62135596800, 0 }, CLOCK_DIGITS_FEWEST, "0001-01-01T00:00:00Z" },
        { { 253402300799, 999999999 }, 9, "9999-12-31T23:59:59.999999999Z" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[CLOCK_TEXT_MAX];

        assert_int_equal(clock_format(cases[i].t, cases[i].digits, text), 0);
        assert_string_equal(text, cases[i].text);
    }
}

static void times_that_have_no_text_are_refused(void **state)
{
    static const struct timespec cases[] = { { -62135596801, 0 }, { 253402300800, 0 }, { INT64_MAX, 0 },
                                             { INT64_MIN, 0 },    { 0, -1 },           { 0, 1000000000 } };
    char text[CLOCK_TEXT_MAX] = "untouched";

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(clock_format(cases[i], 3, text), -ERANGE);
    assert_string_equal(text, "untouched");
}

static void times_before_1970_count_upwards_within_the_second(void **state)
{
    struct timespec t = clock_timespec_of_ns(-1);

    (void) state;
    assert_int_equal(t.tv_sec, -1);
    assert_int_equal(t.tv_nsec, 999999999);
    t = clock_timespec_of_ns(1500000000);
    assert_int_equal(t.tv_sec, 1);
    assert_int_equal(t.tv_nsec, 500000000);
}

static void texts_of_times_are_read_back(void **state)
{
    static const struct {
        const char *text;
        struct timespec t;
    } cases[] = {
        { "2026-01-02T03:04:05Z", { 1767323045, 0 } },
        { "2026-01-02T03:04:05.6Z", { 1767323045, 600000000 } },
        { "2026-01-02T03:04:05.678901234Z", { 1767323045, 678901234 } },
        { "2026-01-02T05:34:05+02:30", { 1767323045, 0 } },
        { "2026-01-01T22:04:05-05:00", { 1767323045, 0 } },
        { "2024-02-29T00:00:00Z", { 1709164800, 0 } },
        { "2000-02-29T00:00:00Z", { 951782400, 0 } },
        { "0001-01-01T00:00:00Z", { -62135596800, 0 } },
        { "9999-12-31T23:59:59.999999999Z", { 253402300799, 999999999 } },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct timespec t;

        assert_int_equal(clock_parse(cases[i].text, &t, NULL), 0);
        assert_int_equal(t.tv_sec, cases[i].t.tv_sec);
        assert_int_equal(t.tv_nsec, cases[i].t.tv_nsec);
    }
}

static void anything_else_is_no_time(void **state)
{
    static const char *const bad[] = {
        "",
        "now",
        "2026-01-02",
        "2026-01-02T03:04Z",
        "2026-01-02 03:04:05Z",
        "2026-01-02t03:04:05Z",
        "2026-01-02T03:04:05z",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05.1234567890Z",
        "2026-01-02T03:04:05,5Z",
        "2026-01-02T03:04:05Z ",
        " 2026-01-02T03:04:05Z",
        "+026-01-02T03:04:05Z",
        "2026-1-02T03:04:05Z",
        "2026-00-02T03:04:05Z",
        "2026-13-02T03:04:05Z",
        "2026-02-29T03:04:05Z",
        "1900-02-29T03:04:05Z",
        "2026-04-31T03:04:05Z",
        "2026-01-00T03:04:05Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:60:05Z",
        "2026-01-02T23:59:60Z",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05+01:60",
        "2026-01-02T03:04:05+0100",
        "2026-01-02T03:04:05+01",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-00:01",
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct timespec t = { 7, 7 };
        struct err err = ERR_NONE;

        if (clock_parse(bad[i], &t, &err) != -EINVAL)
            fail_msg("'%s' was taken for a time", bad[i]);
        assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
        assert_names(&err, bad[i]);
        assert_int_equal(t.tv_sec, 7);
    }
}

static void durations_are_read_as_people_type_them(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        { "0", 0 },
        { "0s", 0 },
        { "45", 45 * CLOCK_NS_PER_SEC },
        { "30s", 30 * CLOCK_NS_PER_SEC },
        { "1m30s", 90 * CLOCK_NS_PER_SEC },
        { "500ms", 500 * CLOCK_NS_PER_MS },
        { "2h", 7200 * CLOCK_NS_PER_SEC },
        { "1.5s", 1500 * CLOCK_NS_PER_MS },
        { "1.5h", 5400 * CLOCK_NS_PER_SEC },
        { "0.000000001s", 1 },
        { "1h2m3s4ms5us6ns", 3723004005006 },
        { "007s", 7 * CLOCK_NS_PER_SEC },
        { "9223372036", 9223372036 * CLOCK_NS_PER_SEC },
        { "9223372036854775807ns", INT64_MAX },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ns = -1;

        if (clock_parse_duration(cases[i].text, &ns, NULL) != 0 || ns != cases[i].ns)
            fail_msg("'%s' was read as %lld", cases[i].text, (long long) ns);
    }
}

static void junk_is_no_duration(void **state)
{
    static const char *const bad[] = { "",       "s",    "-1s",       "+1s",   " 1s",  "1s ",   "1 s",           "1.5",
                                       "1.s",    ".5s",  "1,5s",      "1d",    "1S",   "30s1m", "1s1s",          "1m30",
                                       "1sm",    "0x10", "1e3",       "inf",   "1mss", "1.5ns", "1.0000000001s", "1..5s",
                                       "1.5.5s", "1s\n", "\x1b[2J1s", "1\xff", "nan",  "5µs" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = ERR_NONE;
        int64_t ns = 77;

        if (clock_parse_duration(bad[i], &ns, &err) != -EINVAL)
            fail_msg("'%s' was taken for a duration", bad[i]);
        assert_names(&err, bad[i]);
        assert_int_equal(ns, 77);
    }
}

static void a_duration_that_does_not_fit_is_refused_by_name(void **state)
{
    static const char *const bad[] = { "9223372037", "9223372036854775808ns", "99999999999999999999", "2562048h",
                                       "2562047h47m16.854775808s" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = ERR_NONE;
        int64_t ns = 77;

        assert_int_equal(clock_parse_duration(bad[i], &ns, &err), -ERANGE);
        assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
        assert_names(&err, bad[i]);
        assert_int_equal(ns, 77);
    }
}

static void durations_print_as_protobuf_prints_them(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        { 0, "0s" },
        { 12345678, "0.012345678s" },
        { 1500000000, "1.500s" },
        { 3000001000, "3.000001s" },
        { -1500000000, "-1.500s" },
        { INT64_MAX, "9223372036.854775807s" },
        { INT64_MIN, "-9223372036.854775808s" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[CLOCK_TEXT_MAX];

        clock_format_duration(cases[i].ns, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(monotonic_time_does_not_go_back),
        cmocka_unit_test(points_in_time_print_as_protobuf_prints_them),
        cmocka_unit_test(times_that_have_no_text_are_refused),
        cmocka_unit_test(times_before_1970_count_upwards_within_the_second),
        cmocka_unit_test(texts_of_times_are_read_back),
        cmocka_unit_test(anything_else_is_no_time),
        cmocka_unit_test(durations_are_read_as_people_type_them),
        cmocka_unit_test(junk_is_no_duration),
        cmocka_unit_test(a_duration_that_does_not_fit_is_refused_by_name),
        cmocka_unit_test(durations_print_as_protobuf_prints_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
