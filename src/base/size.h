/*
 * Sizes in bytes as people write them. Units are powers of 1024 under either spelling, because that is what every limit in
 * this program means by them: "512M", "512MB" and "512MiB" are the same.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

#define SIZE_TEXT_MAX 16

/* Digits, perhaps a fraction, perhaps a unit: B K M G T P E with an optional "B" or "iB", in either case. A fraction needs a
 * unit; what it leaves of a byte is dropped. No sign, no spaces. Never more than INT64_MAX, so a result fits off_t.
 * -EINVAL, or -ERANGE for what is too large. */
int size_parse(const char *s, uint64_t *ret_bytes, struct err *err);

/* "0 B", "1.5 KB", "3.0 GB": one digit after the point, rounded. */
void size_format(uint64_t size_bytes, char out[SIZE_TEXT_MAX]);
