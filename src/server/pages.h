/*
 * The plain pages beside the API: /health and /metrics.
 */
#pragma once

#include "rest/extra.h"

struct server;

/* Their cookies are the server. */
const struct rest_extra *pages_make(struct server *server, size_t *ret_count);
