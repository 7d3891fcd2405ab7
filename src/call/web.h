/*
 * A request over HTTP that is no method of the protobuf API: JSON as its handler reads it, content, events. The table of routes is made by
 * who serves; whoever speaks HTTP carries it.
 *
 * A handler runs in one thread of the pool and may block. It sees a `struct web` and fills in its response, errors too: what it
 * returns with is sent. An answer that comes in pieces is begun with web_begin(), after which status and headers are out of its hands, and
 * goes on with web_write() or web_event(). Who asks, their headers and whether they still wait are in `call`, as for a method.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "call/call.h"
#include "call/websocket.h"

struct web;

typedef void (*web_fn)(struct web *web, void *cookie);

enum web_answer {
    WEB_ANSWER_WHOLE,  /* the response's body */
    WEB_ANSWER_BYTES,  /* pieces; or whole, if it is never begun */
    WEB_ANSWER_EVENTS, /* server-sent events likewise; comments keep the connection alive between them */
};

/* "{name}" in `path` takes one component of it, "{name=**}" the rest. */
struct web_route {
    const char *verb; /* a GET serves HEAD too */
    const char *path;
    web_fn run;
    enum web_answer answer;
    bool has_body;         /* may have one: it is there whole when the handler is called */
    size_t body_max;       /* bytes; 0: 4 MiB */
    const char *summary;   /* one line, for the OpenAPI page */
    const char *operation; /* its name there; NULL: made of verb and path */
    const void *detail;    /* the table maker's own */
};

/* Borrowed; lives longer than who uses it. */
struct web_table {
    const struct web_route *routes;
    size_t count;
    void *cookie; /* for the handlers */
};

/* Whether the path, raw, is one of those whose errors look as web_add_error() writes them, also when nothing is there. */
bool web_is_path(const char *path, size_t len);

#define WEB_HEADERS_MAX 20

struct web_pair {
    char *name, *value; /* owned */
};

struct web_header {
    char *name, *value; /* owned */
};

struct web_response {
    int status;               /* 200 unless told */
    const char *content_type; /* a literal; application/json unless told */
    struct buf body;          /* owned: an answer that is whole */
    int64_t size_bytes;       /* of pieces, if it is known; -1: it is not */
    struct web_header headers[WEB_HEADERS_MAX];
    size_t header_count;
};

/* What a connection has become. */
struct web_socket {
    int fd;                         /* borrowed until it is hung up */
    struct gnutls_session_int *tls; /* likewise; NULL: none */
    struct buf early;               /* owned: what came behind the request */
};

struct web_ops {
    /* Sends status and headers as they are in the response now. -ECANCELED. */
    int (*begin)(struct web *web);
    /* Waits while the client does not read. -ECANCELED when nobody does any more. */
    int (*write)(struct web *web, const void *bytes, size_t len);
    /* See web_drain(); NULL: what was written has arrived. */
    int (*drain)(struct web *web);
    /* See web_upgrade(). */
    int (*upgrade)(struct web *web, struct web_socket *ret, struct err *err);
    void (*hang_up)(struct web *web);
};

struct web {
    const struct web_ops *ops;
    struct call *call; /* borrowed, as is all of the request */
    const struct web_route *route;
    const struct web_pair *captures; /* of the path, decoded */
    size_t capture_count;
    const struct web_pair *queries; /* decoded, in their order */
    size_t query_count;
    const char *body; /* not NULL */
    size_t body_len;
    bool has_begun;
    bool is_broken; /* to be set when pieces end too early: the client must not take them for all */
    struct web_response response;
};

/* Never NULL for a name that the route's path has. */
const char *web_capture(const struct web *web, const char *name);
/* The first of that name; NULL: none. */
const char *web_query(const struct web *web, const char *name);
/* Lower-case name; NULL: not sent. */
const char *web_header(const struct web *web, const char *name);

/* Copied; one too many is dropped. */
void web_add_header(struct web *web, const char *name, const char *value);
void web_response_add_header(struct web_response *response, const char *name, const char *value);

/* The whole answer; takes the value. NULL is a mistake of the caller's, and told as 500. */
void web_answer_json(struct web *web, int status, json_t *value);

/* For answers with long lists, of which the whole would take many times its text in memory. Adds and takes the value; false: it cannot be
 * written, nothing was added. */
bool web_add_json(struct buf *out, json_t *value);
/* The whole answer; `text` is emptied. */
void web_answer_json_text(struct web *web, int status, struct buf *text);

int web_begin(struct web *web);
int web_write(struct web *web, const void *bytes, size_t len);
/* Waits until all that was written has left this process. 0: it has, and it was wanted (unlike that of a HEAD); -ECANCELED. */
int web_drain(struct web *web);
/* One event, begun if it is the first. Lines of `text` become lines of data, whatever ends them. `event`, `id` may be NULL. */
int web_event(struct web *web, const char *event, const char *id, const char *text, size_t len);

/* The connection becomes a WebSocket; there is no other answer then. To be given back with web_hang_up(), whatever happens. -EPROTONOSUPPORT
 * when none was asked for, -ECANCELED. `options` may be NULL. */
int web_upgrade(struct web *web, const struct websocket_options *options, websocket_fn fn, void *cookie, struct websocket **ret,
                struct err *err);
void web_hang_up(struct web *web, struct websocket *socket);

/* {"error", "code", "success": false, "hint"?, "retryable"?, "details"?}. `hint` and `details` may be NULL. */
void web_add_error(struct buf *out, int status, const char *message, const char *hint, bool is_retryable, json_t *details);

void web_response_done(struct web_response *response);
