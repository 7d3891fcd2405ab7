#include "server/metrics.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

#define CODES (ERR_UNAUTHENTICATED + 1)

/* Upper bounds in microseconds; longer calls count only in the sum and the total. */
static const int64_t bucket_ends_us[] = { 500,    1000,   2500,    5000,    10000,   25000,    50000,
                                          100000, 250000, 1000000, 2500000, 5000000, 10000000, 60000000 };

#define BUCKETS ARRAY_LEN(bucket_ends_us)

struct method_counts {
    atomic_uint_fast64_t codes[CODES];
    atomic_uint_fast64_t buckets[BUCKETS];
    atomic_uint_fast64_t sum_us;
};

struct metrics {
    const struct method_table *methods;
    struct method_counts *counts; /* owned: one for each method, and one for unknown methods */
};

struct metrics *metrics_new(const struct method_table *methods)
{
    struct metrics *metrics = xnew(struct metrics);

    metrics->methods = methods;
    metrics->counts = xalloc((methods->count + 1) * sizeof(*metrics->counts));
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    if (!metrics)
        return;
    free(metrics->counts);
    free(metrics);
}

void metrics_count_call(struct metrics *metrics, const struct method *method, enum err_code code, int64_t duration_ns)
{
    size_t index = method ? (size_t) (method - metrics->methods->methods) : metrics->methods->count;
    struct method_counts *counts;
    int64_t us = duration_ns / 1000;

    /* Health and reflection are in other tables, so this index is beyond ours. */
    if (index > metrics->methods->count)
        index = metrics->methods->count;
    counts = &metrics->counts[index];
    atomic_fetch_add_explicit(&counts->codes[(unsigned) code < CODES ? code : ERR_UNKNOWN], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->sum_us, (uint64_t) us, memory_order_relaxed);
    for (size_t i = 0; i < BUCKETS; i++) {
        if (us <= bucket_ends_us[i]) {
            atomic_fetch_add_explicit(&counts->buckets[i], 1, memory_order_relaxed);
            break;
        }
    }
}

void metrics_add_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_add_value(struct buf *out, const char *name, const char *labels, uint64_t value)
{
    if (labels)
        buf_addf(out, "%s{%s} %" PRIu64 "\n", name, labels, value);
    else
        buf_addf(out, "%s %" PRIu64 "\n", name, value);
}

static const char *metrics_method_name(const struct metrics *metrics, size_t index)
{
    return index < metrics->methods->count ? metrics->methods->methods[index].name : "other";
}

static uint64_t metrics_add_codes(const struct metrics *metrics, size_t index, struct buf *out)
{
    uint64_t sum = 0;

    for (int code = 0; code < CODES; code++) {
        uint64_t count = atomic_load_explicit(&metrics->counts[index].codes[code], memory_order_relaxed);

        if (count > 0)
            buf_addf(out, "agentfense_calls_total{method=\"%s\",code=\"%s\"} %" PRIu64 "\n",
                     metrics_method_name(metrics, index), err_code_name((enum err_code) code), count);
        sum += count;
    }
    return sum;
}

static void metrics_add_durations(const struct metrics *metrics, size_t index, uint64_t calls, struct buf *out)
{
    static const char name[] = "agentfense_call_duration_seconds";
    const struct method_counts *counts = &metrics->counts[index];
    uint64_t below = 0;

    if (calls == 0)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        below += atomic_load_explicit(&counts->buckets[i], memory_order_relaxed);
        buf_addf(out, "%s_bucket{method=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, metrics_method_name(metrics, index),
                 (double) bucket_ends_us[i] / 1e6, below);
    }
    buf_addf(out, "%s_bucket{method=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, metrics_method_name(metrics, index), calls);
    buf_addf(out, "%s_sum{method=\"%s\"} %g\n", name, metrics_method_name(metrics, index),
             (double) atomic_load_explicit(&counts->sum_us, memory_order_relaxed) / 1e6);
    buf_addf(out, "%s_count{method=\"%s\"} %" PRIu64 "\n", name, metrics_method_name(metrics, index), calls);
}

void metrics_add_calls(struct metrics *metrics, struct buf *out)
{
    size_t count = metrics->methods->count + 1;
    autofree uint64_t *calls = xalloc(count * sizeof(*calls));

    metrics_add_head(out, "agentfense_calls_total", "counter", "Calls of the API, by method and outcome.");
    for (size_t i = 0; i < count; i++)
        calls[i] = metrics_add_codes(metrics, i, out);
    metrics_add_head(out, "agentfense_call_duration_seconds", "histogram", "How long calls took.");
    for (size_t i = 0; i < count; i++)
        metrics_add_durations(metrics, i, calls[i], out);
}
