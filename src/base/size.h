/*
 * Sizes in bytes as people write them. Units are powers of 1024 in every spelling: "512M", "512MB" and "512MiB" are the same.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

#define SIZE_TEXT_MAX 16

/* Accepts digits with an optional fraction and an optional unit: B K M G T P E, optionally followed by "B" or "iB", in either
 * case. A fraction needs a unit; a remaining part of a byte is dropped. No sign, no spaces. Results are at most INT64_MAX, so
 * they fit off_t. Returns -EINVAL, or -ERANGE if the size is too large. */
int size_parse(const char *s, uint64_t *ret_bytes, struct err *err);

/* Writes "0 B", "1.5 KB", "3.0 GB": rounded to one digit after the point. */
void size_format(uint64_t size_bytes, char out[SIZE_TEXT_MAX]);
