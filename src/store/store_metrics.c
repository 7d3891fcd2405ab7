#include "store/store_metrics.h"

static const char *const names[] = {
#define X(name, text) text,
    STORE_CALL_CALLS(X)
#undef X
};

const char *store_call_name(enum store_call call)
{
    return names[call];
}

int64_t store_metrics_bucket_end_ns(unsigned bucket)
{
    return bucket + 1 < STORE_CALL_BUCKETS ? (int64_t) STORE_CALL_FIRST_US * 1000 << bucket : INT64_MAX;
}

void store_metrics_add(struct store_metrics *meter, enum store_call call, int64_t ns, bool failed)
{
    unsigned bucket = 0;

    if (ns < 0)
        ns = 0;
    while (ns > store_metrics_bucket_end_ns(bucket))
        bucket++;
    atomic_fetch_add_explicit(&meter->calls[call].count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&meter->calls[call].sum_ns, (uint64_t) ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&meter->calls[call].buckets[bucket], 1, memory_order_relaxed);
    if (failed)
        atomic_fetch_add_explicit(&meter->calls[call].failures, 1, memory_order_relaxed);
}
