#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define YEAR_MIN 1
#define YEAR_MAX 9999

static int64_t read_clock(clockid_t which)
{
    struct timespec t;

    /* clock_gettime() fails only for unknown clocks, and Linux has had these two since 2.6. */
    if (clock_gettime(which, &t) < 0)
        abort();
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

int64_t clock_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

struct timespec clock_timespec_of_ns(int64_t ns)
{
    int64_t sec = ns / CLOCK_NS_PER_SEC, rest = ns % CLOCK_NS_PER_SEC;

    /* Division rounds towards zero, but tv_nsec counts upwards, also before 1970. */
    if (rest < 0) {
        sec--;
        rest += CLOCK_NS_PER_SEC;
    }
    return (struct timespec){ .tv_sec = (time_t) sec, .tv_nsec = (long) rest };
}

static int fewest_digits(long ns)
{
    if (ns == 0)
        return 0;
    if (ns % 1000000 == 0)
        return 3;
    return ns % 1000 == 0 ? 6 : 9;
}

/* Writes ".678", or "" without digits. */
static void format_fraction(long ns, int digits, char out[11])
{
    char all[16];

    if (digits == CLOCK_DIGITS_FEWEST)
        digits = fewest_digits(ns);
    assert(digits >= 0 && digits <= 9);
    snprintf(all, sizeof(all), ".%09u", (unsigned) ns);
    snprintf(out, 11, "%.*s", digits ? digits + 1 : 0, all);
}

int clock_format(struct timespec t, int digits, char out[CLOCK_TEXT_MAX])
{
    char fraction[11], rest[20];
    struct tm tm;

    if (!gmtime_r(&t.tv_sec, &tm) || tm.tm_year + 1900 < YEAR_MIN || tm.tm_year + 1900 > YEAR_MAX || t.tv_nsec < 0 ||
        t.tv_nsec >= CLOCK_NS_PER_SEC)
        return -ERANGE;
    format_fraction(t.tv_nsec, digits, fraction);
    strftime(rest, sizeof(rest), "-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CLOCK_TEXT_MAX, "%04u%s%sZ", (unsigned) (tm.tm_year + 1900), rest, fraction);
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses exactly `count` digits, followed by the character `then` unless that is 0. */
static bool clock_parse_number(const char **at, int count, char then, int *ret)
{
    int value = 0;

    for (int i = 0; i < count; i++) {
        if (!is_digit(**at))
            return false;
        value = value * 10 + (*(*at)++ - '0');
    }
    if (then && *(*at)++ != then)
        return false;
    *ret = value;
    return true;
}

/* Parses ".5" or nothing, and returns nanoseconds. */
static bool clock_parse_fraction(const char **at, long *ret_ns)
{
    long ns = 0, each = CLOCK_NS_PER_SEC / 10;

    if (**at != '.') {
        *ret_ns = 0;
        return true;
    }
    (*at)++;
    if (!is_digit(**at))
        return false;
    for (; is_digit(**at); each /= 10) {
        if (each == 0)
            return false;
        ns += (*(*at)++ - '0') * each;
    }
    *ret_ns = ns;
    return true;
}

static bool clock_parse_offset(const char **at, int *ret_sec)
{
    int hours, minutes, sign = **at == '-' ? -1 : 1;

    if (**at == 'Z') {
        (*at)++;
        *ret_sec = 0;
        return true;
    }
    if (**at != '+' && **at != '-')
        return false;
    (*at)++;
    if (!clock_parse_number(at, 2, ':', &hours) || !clock_parse_number(at, 2, 0, &minutes) || hours > 23 || minutes > 59)
        return false;
    *ret_sec = sign * (hours * 3600 + minutes * 60);
    return true;
}

static int days_of_month(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && leap);
}

static bool is_date(const struct tm *tm)
{
    return tm->tm_year >= YEAR_MIN && tm->tm_mon >= 1 && tm->tm_mon <= 12 && tm->tm_mday >= 1 &&
           tm->tm_mday <= days_of_month(tm->tm_year, tm->tm_mon) && tm->tm_hour <= 23 && tm->tm_min <= 59 && tm->tm_sec <= 59;
}

/* An offset can push the first or the last day out of the years we can print. */
static bool is_in_range(time_t sec)
{
    struct tm tm;

    return gmtime_r(&sec, &tm) && tm.tm_year + 1900 >= YEAR_MIN && tm.tm_year + 1900 <= YEAR_MAX;
}

int clock_parse(const char *s, struct timespec *ret, struct err *err)
{
    struct tm tm = { 0 };
    const char *at = s;
    struct timespec t;
    int offset_sec;

    if (!clock_parse_number(&at, 4, '-', &tm.tm_year) || !clock_parse_number(&at, 2, '-', &tm.tm_mon) ||
        !clock_parse_number(&at, 2, 'T', &tm.tm_mday) || !clock_parse_number(&at, 2, ':', &tm.tm_hour) ||
        !clock_parse_number(&at, 2, ':', &tm.tm_min) || !clock_parse_number(&at, 2, 0, &tm.tm_sec) ||
        !clock_parse_fraction(&at, &t.tv_nsec) || !clock_parse_offset(&at, &offset_sec) || *at != '\0')
        return err_reject(err, -EINVAL, s, "is not a time like 2026-01-02T03:04:05Z");
    if (!is_date(&tm))
        return err_reject(err, -EINVAL, s, "names a day or an hour that does not exist");
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    t.tv_sec = timegm(&tm) - offset_sec;
    if (!is_in_range(t.tv_sec))
        return err_reject(err, -EINVAL, s, "is outside the years 1 to 9999");
    *ret = t;
    return 0;
}

static const struct unit {
    const char *name;
    int64_t ns;
} units[] = {
    { "h", 3600 * CLOCK_NS_PER_SEC },
    { "m", 60 * CLOCK_NS_PER_SEC },
    { "s", CLOCK_NS_PER_SEC },
    { "ms", CLOCK_NS_PER_MS },
    { "us", 1000 },
    { "ns", 1 },
};

#define SECONDS (&units[2])

/* Matches the unit against all letters at `at`, so that the "m" of "ms" is not taken for a minute. */
static const struct unit *clock_parse_unit(const char **at)
{
    size_t len = strspn(*at, "hmsnu");

    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (strlen(units[i].name) == len && memcmp(units[i].name, *at, len) == 0) {
            *at += len;
            return &units[i];
        }
    return NULL;
}

/* Returns -ERANGE if the number does not fit. */
static int clock_parse_whole(const char **at, int64_t *ret)
{
    int64_t value = 0;

    if (!is_digit(**at))
        return -EINVAL;
    for (; is_digit(**at); (*at)++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, **at - '0', &value))
            return -ERANGE;
    *ret = value;
    return 0;
}

/* `billionths` is the fraction of a unit. A fraction that is not a whole number of nanoseconds is refused, not rounded. */
static int add_span(int64_t *sum, int64_t whole, long billionths, const struct unit *unit)
{
    int64_t span, part;

    if (__builtin_mul_overflow(whole, unit->ns, &span))
        return -ERANGE;
    if (billionths) {
        /* The largest product is 3.6e12 * 1e9, which needs more than 64 bits. */
        __int128 product = (__int128) billionths * unit->ns;

        if (product % CLOCK_NS_PER_SEC != 0)
            return -EINVAL;
        part = (int64_t) (product / CLOCK_NS_PER_SEC);
        if (__builtin_add_overflow(span, part, &span))
            return -ERANGE;
    }
    return __builtin_add_overflow(*sum, span, sum) ? -ERANGE : 0;
}

/* Parses one part, such as the "1.5s" of "1.5s200ms". Its unit must be smaller than `*before`. */
static int clock_parse_span(const char **at, const struct unit **before, int64_t *sum)
{
    const struct unit *unit;
    long billionths;
    int64_t whole;
    int r;

    r = clock_parse_whole(at, &whole);
    if (r < 0)
        return r;
    if (!*before && **at == '\0')
        return add_span(sum, whole, 0, SECONDS);
    if (!clock_parse_fraction(at, &billionths))
        return -EINVAL;
    unit = clock_parse_unit(at);
    if (!unit || (*before && unit <= *before))
        return -EINVAL;
    *before = unit;
    return add_span(sum, whole, billionths, unit);
}

static int parse_duration(const char *s, int64_t *ret_ns)
{
    const struct unit *before = NULL;
    int64_t sum = 0;
    int r;

    do {
        r = clock_parse_span(&s, &before, &sum);
        if (r < 0)
            return r;
    } while (*s);
    *ret_ns = sum;
    return 0;
}

int clock_parse_duration(const char *s, int64_t *ret_ns, struct err *err)
{
    int r = parse_duration(s, ret_ns);

    if (r == -ERANGE)
        return err_reject(err, r, s, "is too long a duration");
    if (r < 0)
        return err_reject(err, r, s, "is not a duration like 30s, 1m30s or 500ms");
    return 0;
}

void clock_format_duration(int64_t ns, char out[CLOCK_TEXT_MAX])
{
    /* The magnitude of INT64_MIN fits only an unsigned type. */
    uint64_t magnitude = ns < 0 ? 0 - (uint64_t) ns : (uint64_t) ns;
    char fraction[11];

    format_fraction((long) (magnitude % CLOCK_NS_PER_SEC), CLOCK_DIGITS_FEWEST, fraction);
    snprintf(out, CLOCK_TEXT_MAX, "%s%llu%ss", ns < 0 ? "-" : "", (unsigned long long) (magnitude / CLOCK_NS_PER_SEC),
             fraction);
}
