/*
 * What the service counts, in Prometheus's text format: sandboxes by state, what happens in them, the database.
 */
#pragma once

#include "base/buf.h"

struct service;

void stats_add(struct service *service, struct buf *out);

struct caller;
struct err;

/* Counters of sandboxes over directories, as /api/v1 names them. All but the help are literals for programs. */
struct stats_metric {
    const char *name, *json_name, *type, *help;
    double value;
};

#define STATS_METRICS_MAX 15

/* Returns how many there are for this caller: only administrators get those that count everybody's sandboxes. */
int stats_metrics(struct service *service, const struct caller *caller, struct stats_metric ret[STATS_METRICS_MAX],
                  struct err *err);
/* Adds them in Prometheus' format. */
void stats_metrics_add(const struct stats_metric *metrics, int count, struct buf *out);
/* The same of all sandboxes. */
void stats_add_metrics(struct service *service, struct buf *out);
