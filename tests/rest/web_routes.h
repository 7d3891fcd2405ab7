/* Routes that are no methods, for the test server. */
#pragma once

#include "call/web.h"

extern const struct web_table web_routes;

/* web_socket.c */
void web_run_socket(struct web *web, void *cookie);

/* server.c: what the page /notes tells. */
void note(const char *what, const char *id, long long number);
