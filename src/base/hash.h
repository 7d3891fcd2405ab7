/*
 * FNV-1a. Anyone can find two texts with the same hash, so callers must stay correct when two hashes collide.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_START UINT64_C(14695981039346656037)

/* Continues a hash, or starts one from HASH_START. */
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
