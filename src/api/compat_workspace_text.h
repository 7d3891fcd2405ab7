/* Bytes that come in pieces and are to be told as text. */
#pragma once

#include <stddef.h>

/* How many of them end with a whole character; what is left, three at most, belongs to one that is not complete yet. What never will be a
 * character counts as one. */
size_t compat_text_whole(const char *bytes, size_t len);
