/*
 * Numbers as JSON writes them, read exactly: "12", "-1.5", "1e3". No detour over floating point, so that every int64 arrives as it was
 * sent, and a tenth of a second is a tenth.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether all of it is a number in JSON's grammar. */
bool decimal_is_number(const char *text, size_t len);

/* The number times 10^scale. -EINVAL when it is no number, -EDOM when the result is no whole one, -ERANGE when it has more than 30 digits. */
int decimal_parse(const char *text, size_t len, int scale, __int128 *ret);
