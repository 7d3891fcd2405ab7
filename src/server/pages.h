/*
 * The pages beside the API: /health and /metrics. Their cookie is the server.
 */
#pragma once

#include "call/web.h"

extern const struct web_route page_routes[];
extern const size_t page_route_count;
