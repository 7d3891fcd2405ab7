#include "supervisor/spool.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void spool_done(struct spool *spool)
{
    free(spool->bytes);
    *spool = (struct spool){ 0 };
}

static void make_room(struct spool *spool, size_t more)
{
    if (spool->start + spool->len + more <= spool->cap)
        return;
    if (spool->start > 0) {
        memmove(spool->bytes, spool->bytes + spool->start, spool->len);
        spool->start = 0;
    }
    if (spool->len + more <= spool->cap)
        return;
    /* Twice what is kept, so that bytes are moved up once for each time they are added. */
    spool->cap = (spool->len + more) * 2;
    spool->bytes = xgrow(spool->bytes, spool->cap, 1);
}

static void drop(struct spool *spool, size_t len)
{
    spool->start += len;
    spool->len -= len;
    spool->lost += len;
}

void spool_add(struct spool *spool, const void *bytes, size_t len)
{
    if (len > SPOOL_BYTES_MAX) {
        drop(spool, spool->len);
        spool->lost += len - SPOOL_BYTES_MAX;
        bytes = (const char *) bytes + (len - SPOOL_BYTES_MAX);
        len = SPOOL_BYTES_MAX;
    }
    if (spool->len + len > SPOOL_BYTES_MAX)
        drop(spool, spool->len + len - SPOOL_BYTES_MAX);
    make_room(spool, len);
    memcpy(spool->bytes + spool->start + spool->len, bytes, len);
    spool->len += len;
}

const char *spool_peek(const struct spool *spool, size_t *ret_len)
{
    *ret_len = spool->len;
    return spool->len ? spool->bytes + spool->start : "";
}

void spool_take(struct spool *spool, size_t len)
{
    spool->start += len;
    spool->len -= len;
    if (spool->len == 0) {
        uint64_t lost = spool->lost;
        spool_done(spool);
        spool->lost = lost;
    }
}
