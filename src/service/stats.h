/*
 * The service's counters in Prometheus's text format: sandboxes by state, their activity, the database.
 */
#pragma once

#include "base/buf.h"

struct service;

void stats_add(struct service *service, struct buf *out);

struct caller;
struct err;

/* Counters of sandboxes over directories, with their names in /api/v1. All but the help are literals for programs. */
struct stats_metric {
    const char *name, *json_name, *type, *help;
    double value;
};

#define STATS_METRICS_MAX 15

/* Returns the number of counters for this caller: only administrators get those that count all owners' sandboxes. */
int stats_metrics(struct service *service, const struct caller *caller, struct stats_metric ret[STATS_METRICS_MAX],
                  struct err *err);
/* Adds them in Prometheus's format. */
void stats_metrics_add(const struct stats_metric *metrics, int count, struct buf *out);
/* The same for all owners' sandboxes. */
void stats_add_metrics(struct service *service, struct buf *out);
