/* A vessel with a hole: what comes slower than it runs out never fills it. For things that cost the sender less than us. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* Zeroed is empty. */
struct flood {
    uint32_t level;
    int64_t since_ns;
};

static inline void flood_forgive(struct flood *flood, uint32_t count)
{
    flood->level -= count < flood->level ? count : flood->level;
}

/* One more. True when there are more than `most`, of which `per_second` run out. */
static inline bool flood_add(struct flood *flood, int64_t now_ns, uint32_t per_second, uint32_t most)
{
    int64_t gone = (now_ns - flood->since_ns) / CLOCK_NS_PER_MS * per_second / 1000;

    if (gone > 0 || flood->level == 0) {
        flood->level = gone < flood->level ? flood->level - (uint32_t) gone : 0;
        flood->since_ns = now_ns;
    }
    return ++flood->level > most;
}
