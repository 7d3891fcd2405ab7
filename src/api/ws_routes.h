/* The workspace routes: one table of all, see ws_routes.c. */
#pragma once

#include "api/api.h"
#include "call/web.h"

/* Their counters, as Prometheus reads them. */
void ws_metrics_add(struct service *service, struct buf *out);

/* For the HTTP server; `api` is borrowed. One table for the process. */
const struct web_table *ws_routes_make(struct api *api);
