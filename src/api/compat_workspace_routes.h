/* The workspace routes: one table of all, see compat_workspace_routes.c. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api/api.h"
#include "call/web.h"
#include "service/caller.h"

/* Everybody's counters; NULL when they could not be had. */
json_t *compat_metrics_make(struct service *service);

/* What /api/v1/health tells this caller; to NULL, a stranger, only whether the server can do its work. */
json_t *compat_health_make(struct service *service, const struct caller *caller, bool *ret_is_up);

/* For the HTTP server; `api` is borrowed. One table for the process. */
const struct web_table *compat_routes_make(struct api *api);
