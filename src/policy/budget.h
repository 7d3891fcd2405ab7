/* Memory that the lazily built parts of a ruleset may still take. Without it, results are computed each time and not stored. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct budget {
    _Atomic size_t left_bytes;
};

static inline bool budget_reserve(struct budget *budget, size_t bytes)
{
    size_t left = atomic_load_explicit(&budget->left_bytes, memory_order_relaxed);

    do {
        if (left < bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->left_bytes, &left, left - bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}
