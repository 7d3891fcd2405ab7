/* UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the sequence at the start of bytes[0..len). Returns its length (1-4) and the code point, or 0 if the bytes are not
 * valid UTF-8 or `len` is 0. */
size_t utf8_decode(const char *bytes, size_t len, uint32_t *ret_code_point);

/* Encodes `code_point`, which must be a valid scalar value, into `out`. Returns the number of bytes, 1 to 4. */
size_t utf8_write(uint32_t code_point, char out[4]);

bool utf8_is_valid(const char *bytes, size_t len);
