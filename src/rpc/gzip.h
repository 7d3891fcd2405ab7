/* Decompresses messages of clients. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/* Appends the decompressed bytes to `out`. -EMSGSIZE if they are more than `max`; -EBADMSG if `bytes` is not exactly one gzip
 * stream. */
int gzip_unpack(const void *bytes, size_t len, size_t max, struct buf *out);
