#include "rest/decimal.h"

#include <errno.h>

#define DIGITS_MAX 30
#define EXPONENT_MAX 100000 /* beyond any text's length: what is larger means the same */

struct parts {
    bool is_negative;
    const char *whole, *fraction; /* digits */
    size_t whole_len, fraction_len;
    long exponent;
};

static size_t count_digits(const char *at, const char *end)
{
    const char *start = at;

    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return (size_t) (at - start);
}

static bool parse_exponent(const char **at, const char *end, long *ret)
{
    bool is_negative = false;
    long value = 0;

    if (*at == end || (**at != 'e' && **at != 'E'))
        return true;
    (*at)++;
    if (*at < end && (**at == '+' || **at == '-'))
        is_negative = *(*at)++ == '-';
    size_t len = count_digits(*at, end);
    if (len == 0)
        return false;
    for (; len > 0; len--, (*at)++)
        if (value < EXPONENT_MAX)
            value = value * 10 + (**at - '0');
    *ret = is_negative ? -value : value;
    return true;
}

static bool parse_parts(const char *text, size_t len, struct parts *ret)
{
    const char *at = text, *end = text + len;
    struct parts parts = { 0 };

    if (at < end && *at == '-') {
        parts.is_negative = true;
        at++;
    }
    parts.whole = at;
    parts.whole_len = count_digits(at, end);
    if (parts.whole_len == 0 || (parts.whole_len > 1 && *at == '0'))
        return false;
    at += parts.whole_len;
    if (at < end && *at == '.') {
        parts.fraction = ++at;
        parts.fraction_len = count_digits(at, end);
        if (parts.fraction_len == 0)
            return false;
        at += parts.fraction_len;
    }
    if (!parse_exponent(&at, end, &parts.exponent) || at != end)
        return false;
    *ret = parts;
    return true;
}

bool decimal_is_number(const char *text, size_t len)
{
    struct parts parts;

    return parse_parts(text, len, &parts);
}

static int digit_at(const struct parts *parts, size_t i)
{
    if (i < parts->whole_len)
        return parts->whole[i] - '0';
    i -= parts->whole_len;
    return i < parts->fraction_len ? parts->fraction[i] - '0' : 0;
}

int decimal_parse(const char *text, size_t len, int scale, __int128 *ret)
{
    __int128 value = 0;
    struct parts parts;
    int digits = 0;

    if (!parse_parts(text, len, &parts))
        return -EINVAL;
    size_t given = parts.whole_len + parts.fraction_len, first = 0;
    while (first < given && digit_at(&parts, first) == 0)
        first++;
    if (first == given) {
        *ret = 0;
        return 0;
    }
    /* Where the point is after scaling, counted from the first digit. */
    long point = (long) parts.whole_len + parts.exponent + scale;
    for (size_t i = first; i < given; i++)
        if ((long) i >= point && digit_at(&parts, i) != 0)
            return -EDOM;
    for (long i = (long) first; i < point; i++) {
        if (++digits > DIGITS_MAX)
            return -ERANGE;
        value = value * 10 + digit_at(&parts, (size_t) i);
    }
    *ret = parts.is_negative ? -value : value;
    return 0;
}
