#include "base/size.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* With one digit more the denominator would not fit 64 bits. */
#define FRACTION_DIGITS_MAX 18

static const char letters[] = "KMGTPE";

/* Returns the number of bits by which the unit shifts, or -1 if it is unknown. */
static int shift_of_unit(const char *unit)
{
    if (*unit == '\0' || strcasecmp(unit, "B") == 0)
        return 0;
    for (int i = 0; letters[i]; i++)
        if (strncasecmp(unit, &letters[i], 1) == 0 &&
            (unit[1] == '\0' || strcasecmp(unit + 1, "B") == 0 || strcasecmp(unit + 1, "iB") == 0))
            return 10 * (i + 1);
    return -1;
}

struct decimal {
    uint64_t whole;
    uint64_t part;  /* numerator of the fraction */
    uint64_t scale; /* its denominator, a power of ten; 1 without a fraction */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int parse_decimal(const char **at, struct decimal *ret)
{
    struct decimal d = { .scale = 1 };
    const char *s = *at;

    if (!is_digit(*s))
        return -EINVAL;
    for (; is_digit(*s); s++)
        if (__builtin_mul_overflow(d.whole, 10, &d.whole) || __builtin_add_overflow(d.whole, *s - '0', &d.whole))
            return -ERANGE;
    if (*s == '.') {
        const char *first = ++s;

        for (; is_digit(*s) && s - first < FRACTION_DIGITS_MAX; s++) {
            d.part = d.part * 10 + (uint64_t) (*s - '0');
            d.scale *= 10;
        }
        if (s == first || is_digit(*s))
            return -EINVAL;
    }
    *at = s;
    *ret = d;
    return 0;
}

static int size_parse_text(const char *s, uint64_t *ret_bytes)
{
    struct decimal d;
    int r, shift;

    r = parse_decimal(&s, &d);
    if (r < 0)
        return r;
    shift = shift_of_unit(s);
    if (shift < 0 || (shift == 0 && d.scale != 1))
        return -EINVAL;
    if (d.whole > (uint64_t) INT64_MAX >> shift)
        return -ERANGE;
    /* The fraction is less than one unit and the whole part at most INT64_MAX >> shift units, so the sum fits. The product
     * needs up to 120 bits. */
    *ret_bytes = (d.whole << shift) + (uint64_t) (((unsigned __int128) d.part << shift) / d.scale);
    return 0;
}

int size_parse(const char *s, uint64_t *ret_bytes, struct err *err)
{
    int r = size_parse_text(s, ret_bytes);

    if (r == -ERANGE)
        return err_reject(err, r, s, "is too large: a size is less than 8E");
    if (r < 0)
        return err_reject(err, r, s, "is not a size like 512M, 1.5G or a number of bytes");
    return 0;
}

void size_format(uint64_t size_bytes, char out[SIZE_TEXT_MAX])
{
    uint64_t tenths;
    int unit = 0;

    if (size_bytes < 1024) {
        snprintf(out, SIZE_TEXT_MAX, "%u B", (unsigned) size_bytes);
        return;
    }
    /* Computes tenths of the unit, rounded: 1023.95 of one unit is already 1.0 of the next. */
    for (;; unit++) {
        unsigned shift = 10 * ((unsigned) unit + 1);

        tenths = (uint64_t) (((unsigned __int128) size_bytes * 10 + ((unsigned __int128) 1 << (shift - 1))) >> shift);
        if (tenths < 10240 || letters[unit + 1] == '\0')
            break;
    }
    snprintf(out, SIZE_TEXT_MAX, "%u.%u %cB", (unsigned) (tenths / 10), (unsigned) (tenths % 10), letters[unit]);
}
