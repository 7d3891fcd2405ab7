/*
 * The API over HTTP/1.1: every route of the method table, web routes (call/web.h), JSON in and out, server-sent events and bytes as streams.
 *
 * One thread moves bytes (libmicrohttpd), one accepts connections and watches them (conn_watch.h), handlers run in the pool. A connection costs
 * no thread; a call does, while it runs. Errors are JSON: {"code": 5, "message": "...", "details": []}; only what is not HTTP at all gets
 * libmicrohttpd's own page.
 *
 *     http_server_new(&options, &server, err); http_server_listen(server, &listener, false, err); http_server_start(server, err); ...
 *     http_server_stop(server, 5000); http_server_free(server);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "call/listener.h"
#include "call/method.h"
#include "call/pool.h"
#include "call/tls.h"
#include "call/web.h"

/* Called in the handler's thread when a call is over, before the client hears of it. */
typedef void (*http_call_end_fn)(const struct method *method, enum err_code code, int64_t ns, void *cookie);

/* Everything is borrowed and lives longer than the server. Numbers: 0 is the default in brackets. */
struct http_server_options {
    const struct method_table *methods;
    const struct web_table *web;   /* NULL: none */
    const struct web_table *pages; /* likewise, which /openapi.json does not describe */
    struct pool *pool;
    const char *openapi_title;     /* NULL: no /openapi.json */
    const char *openapi_version;   /* of the API */
    const struct tls_files *tls;   /* NULL: no listener speaks TLS. Read at the start, and by http_server_reload() */
    const char *const *host_names; /* ended by NULL, or NULL; names that Host may have beside addresses and localhost */
    const char *const *origins;    /* ended by NULL, or NULL; "https://ui.example.org": pages that may use the API */
    size_t connections_max; /* [1000] further ones wait in the kernel's queue; strangers have three quarters, and are closed */
    size_t peer_connections_max; /* [100] of one address that is not of this host; further ones are closed */
    unsigned header_timeout_ms;  /* [30000] from the connection, or the last answer, to the end of the next request's headers */
    unsigned body_timeout_ms;    /* [30000] in each of these spans a body must make some progress: a kilobyte for each second */
    unsigned write_timeout_ms;   /* [60000] rounded up to seconds: a client that takes nothing for so long is given up */
    unsigned heartbeat_ms;       /* [15000] events: after so long without one a comment is sent */
    http_call_end_fn on_call_end; /* may be NULL */
    void *on_call_end_cookie;
};

struct http_server;

int http_server_new(const struct http_server_options *options, struct http_server **ret, struct err *err);

/* Before the start. The listener stays the caller's and open. */
int http_server_listen(struct http_server *server, const struct listener *listener, bool with_tls, struct err *err);

int http_server_start(struct http_server *server, struct err *err);

/* Reads the files of TLS again, for connections to come; those that are there keep what they have. On failure everything stays as it was.
 * One thread at a time. */
int http_server_reload(struct http_server *server, struct err *err);

/* Accepts nothing more, answers new requests with UNAVAILABLE, waits so long for calls at work, then cancels them and waits for their
 * handlers to return. Idempotent. */
void http_server_stop(struct http_server *server, unsigned grace_ms);

void http_server_free(struct http_server *server); /* stops too */
DEFINE_AUTOPTR(http_server, http_server_free);

struct http_server_stats {
    size_t connections, calls;
    uint64_t refused; /* connections closed at once: too many of one peer, or no descriptor left */
};

void http_server_stats(struct http_server *server, struct http_server_stats *ret);
