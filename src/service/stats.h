/*
 * What the service counts, in Prometheus's text format: sandboxes by state, what happens in them, the database.
 */
#pragma once

#include "base/buf.h"

struct service;

void stats_add(struct service *service, struct buf *out);
