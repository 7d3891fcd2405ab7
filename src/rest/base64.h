/* Bytes as text. Reading takes both alphabets (RFC 4648, plain and for URLs), padded or not, and nothing else; writing is the plain one, padded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Bytes that `len` characters hold at most. */
#define BASE64_DECODED_MAX(len) ((len) / 4 * 3 + 3)

/* The number of bytes, or -EINVAL: a character of another alphabet, padding that is wrong, bits left over that are not zero. */
ptrdiff_t base64_decode(const char *text, size_t len, uint8_t *out);

void base64_add(struct buf *out, const uint8_t *bytes, size_t len);
