/*
 * FNV-1a: bytes as a number, for tables and marks. Anybody can find two texts that have the same, so it proves nothing, and what it is used
 * for must stay right when that happens.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_START UINT64_C(14695981039346656037)

/* Goes on from the hash of what came before, or from HASH_START. */
static inline uint64_t hash_add(uint64_t hash, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *) bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

static inline uint64_t hash_text(const char *text)
{
    return hash_add(HASH_START, text, strlen(text));
}
