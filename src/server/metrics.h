/*
 * Metrics for Prometheus: calls by method and code, their durations, and the modules' own counters, which are collected for
 * each request.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "call/method.h"

struct metrics;

struct metrics *metrics_new(const struct method_table *methods);
void metrics_free(struct metrics *metrics);
DEFINE_AUTOPTR(metrics, metrics_free);

/* Counts a finished call; `method` NULL: an unknown method. May be called from any thread. */
void metrics_count_call(struct metrics *metrics, const struct method *method, enum err_code code, int64_t duration_ns);

void metrics_add_calls(struct metrics *metrics, struct buf *out);

/* Lines of the text format: "# HELP", "# TYPE", and values. */
void metrics_add_head(struct buf *out, const char *name, const char *type, const char *help);
void metrics_add_value(struct buf *out, const char *name, const char *labels, uint64_t value);
