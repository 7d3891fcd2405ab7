#include "store/meter.h"

static const char *const names[] = {
#define X(name, text) text,
    METER_CALLS(X)
#undef X
};

const char *meter_call_name(enum meter_call call)
{
    return names[call];
}

int64_t meter_bucket_end_ns(unsigned bucket)
{
    return bucket + 1 < METER_BUCKETS ? (int64_t) METER_FIRST_US * 1000 << bucket : INT64_MAX;
}

void meter_add(struct meter *meter, enum meter_call call, int64_t ns, bool failed)
{
    unsigned bucket = 0;

    if (ns < 0)
        ns = 0;
    while (ns > meter_bucket_end_ns(bucket))
        bucket++;
    atomic_fetch_add_explicit(&meter->calls[call].count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&meter->calls[call].sum_ns, (uint64_t) ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&meter->calls[call].buckets[bucket], 1, memory_order_relaxed);
    if (failed)
        atomic_fetch_add_explicit(&meter->calls[call].failures, 1, memory_order_relaxed);
}
