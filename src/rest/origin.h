/*
 * Whether a request comes from where we want it: the two ways a web page reaches a server on the reader's own machine.
 *
 * A page can make its own name point to 127.0.0.1 and then talk to us as its own server (DNS rebinding): so the name in Host must be
 * one of ours, an address that we listen on, or loopback. And a page can send requests to us from elsewhere (CSRF): its browser says so in
 * Origin, or in Sec-Fetch-Site where there is no Origin; such requests are refused unless the origin is configured or our own.
 */
#pragma once

#include <stdbool.h>

#include "call/peer.h"

/* `host` as it stands in the header, with or without a port. `names` are ours, ended by NULL; NULL: none. */
bool origin_host_is_ours(const char *host, const struct peer *peer, const char *const *names);

/* "http://host:port" exactly as configured, or that of the request itself. `host` is the Host header; NULL: it had none. */
bool origin_is_configured(const char *origin, const char *const *origins);
bool origin_is_own(const char *origin, const char *host, bool is_tls);
