/* Parts of a URL as they come over the wire: percent signs, queries. Strict, since what is decoded in two ways is a hole in one of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Adds the decoded text. `plus_is_blank` is for queries and forms. -EINVAL for a percent sign without two hex digits, a NUL, or what is not
 * UTF-8 afterwards. */
int url_decode(const char *text, size_t len, bool plus_is_blank, struct buf *out, struct err *err);

/* Walks over "a=1&b=2": 1 with the next pair, decoded into the two buffers, which it clears; 0 after the last. `*at` is where to go on. */
int url_next_pair(const char **at, const char *end, struct buf *name, struct buf *value, struct err *err);
