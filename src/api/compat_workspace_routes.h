/* The workspace routes (/api/v1), and what other pages of the server share with them. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api/api.h"
#include "call/web.h"
#include "service/caller.h"

/* The counters of all sandboxes; NULL if the database does not answer. */
json_t *compat_metrics_make(struct service *service);

/* Makes the answer of /api/v1/health for this caller; for NULL, an unauthenticated caller, it only says whether the server works. */
json_t *compat_health_make(struct service *service, const struct caller *caller, bool *ret_is_up);

/* Makes the table for the HTTP server; `api` is borrowed. There is one table per process. */
const struct web_table *compat_routes_make(struct api *api);
