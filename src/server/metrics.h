/*
 * What is counted for Prometheus: calls by method and code with how long they took, and whatever the modules count themselves, put together
 * when somebody asks.
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

/* A call is over; `method` NULL: one that is not served. From any thread. */
void metrics_count_call(struct metrics *metrics, const struct method *method, enum err_code code, int64_t duration_ns);

void metrics_add_calls(struct metrics *metrics, struct buf *out);

/* Lines of the text format: "# HELP", "# TYPE", and values. */
void metrics_add_head(struct buf *out, const char *name, const char *type, const char *help);
void metrics_add_value(struct buf *out, const char *name, const char *labels, uint64_t value);
