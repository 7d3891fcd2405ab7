/*
 * Output that nobody has taken yet: a bounded queue of bytes. When it is full the oldest go, and are counted, because whoever
 * comes back wants the end of it most. Empty it owns no memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SPOOL_BYTES_MAX (1u << 20)

struct spool {
    char *bytes; /* owned */
    size_t start, len, cap;
    uint64_t lost; /* dropped before what is here, and not told yet */
};

void spool_done(struct spool *spool);
void spool_add(struct spool *spool, const void *bytes, size_t len);

/* What is there, and how much of it; then take some off the front. */
const char *spool_peek(const struct spool *spool, size_t *ret_len);
void spool_take(struct spool *spool, size_t len);
