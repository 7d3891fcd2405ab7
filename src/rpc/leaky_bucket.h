/* A leaky bucket: it limits the rate of things that cost the sender less than us. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* Zeroed is empty. */
struct leaky_bucket {
    uint32_t level;
    int64_t since_ns;
};

static inline void leaky_bucket_remove(struct leaky_bucket *bucket, uint32_t count)
{
    bucket->level -= count < bucket->level ? count : bucket->level;
}

/* Adds one. Returns true if the bucket then has more than `most`. It loses `per_second`. */
static inline bool leaky_bucket_add(struct leaky_bucket *bucket, int64_t now_ns, uint32_t per_second, uint32_t most)
{
    int64_t gone = (now_ns - bucket->since_ns) / CLOCK_NS_PER_MS * per_second / 1000;

    if (gone > 0 || bucket->level == 0) {
        bucket->level = gone < bucket->level ? bucket->level - (uint32_t) gone : 0;
        bucket->since_ns = now_ns;
    }
    return ++bucket->level > most;
}
