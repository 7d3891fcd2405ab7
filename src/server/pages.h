/*
 * The plain pages beside the API: /health and /metrics.
 */
#pragma once

#include "rest/page.h"

struct server;

/* Their cookies are the server. */
const struct rest_page *pages_make(struct server *server, size_t *ret_count);
