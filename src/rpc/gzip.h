/* Messages that clients compressed. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/* Adds what the bytes become to `out`, never more than `max` of them: -EMSGSIZE. -EBADMSG when they are no gzip, or there is more behind. */
int gzip_unpack(const void *bytes, size_t len, size_t max, struct buf *out);
