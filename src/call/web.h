/*
 * An HTTP request outside the protobuf API: free-form JSON, file content, events. The server fills the table of routes, and the HTTP server
 * carries the requests.
 *
 * A handler runs in a thread of the pool and may block. It fills in the response of its `struct web`, also for errors, and the carrier sends the
 * response when the handler returns. To answer in pieces, the handler calls web_begin(), which sends status and headers, and then web_write()
 * or web_event(). `call` has the caller, the headers and the cancellation, as for a method.
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
    WEB_ANSWER_BYTES,  /* pieces; or the whole body if the handler never calls web_begin() */
    WEB_ANSWER_EVENTS, /* server-sent events likewise; the carrier sends comments in between to keep the connection alive */
};

/* In `path`, "{name}" matches one component and "{name=**}" the rest. */
struct web_route {
    const char *verb; /* a GET serves HEAD too */
    const char *path;
    web_fn run;
    enum web_answer answer;
    bool has_body;         /* the request may have a body, which is complete when the handler is called */
    size_t body_max;       /* bytes; 0: 4 MiB */
    const char *summary;   /* one line, for the OpenAPI page */
    const char *operation; /* its operationId there; NULL: derived from verb and path */
    const void *detail;    /* for the module that filled the table */
};

/* Borrowed; outlives its users. */
struct web_table {
    const struct web_route *routes;
    size_t count;
    void *cookie; /* for the handlers */
};

/* Whether errors for this raw path have the form of web_add_error(), also if no route matches. */
bool web_is_path(const char *path, size_t len);

#define WEB_HEADERS_MAX 20

struct web_pair {
    char *name, *value; /* owned */
};

struct web_header {
    char *name, *value; /* owned */
};

struct web_response {
    int status;               /* 200 by default */
    const char *content_type; /* a literal; application/json by default */
    struct buf body;          /* owned: the whole answer */
    int64_t size_bytes;       /* the total size of an answer in pieces; -1: unknown */
    struct web_header headers[WEB_HEADERS_MAX];
    size_t header_count;
};

/* The connection after an upgrade. */
struct web_socket {
    int fd;                         /* borrowed until hang_up() */
    struct gnutls_session_int *tls; /* likewise; NULL: none */
    struct buf early;               /* owned: bytes that arrived behind the request */
};

struct web_ops {
    /* Sends the status and headers of the response. -ECANCELED. */
    int (*begin)(struct web *web);
    /* Blocks while the client does not read. -ECANCELED if the client is gone. */
    int (*write)(struct web *web, const void *bytes, size_t len);
    /* See web_drain(); NULL: writing is synchronous. */
    int (*drain)(struct web *web);
    /* See web_upgrade(). */
    int (*upgrade)(struct web *web, struct web_socket *ret, struct err *err);
    void (*hang_up)(struct web *web);
};

struct web {
    const struct web_ops *ops;
    struct call *call; /* borrowed, like the whole request */
    const struct web_route *route;
    const struct web_pair *captures; /* of the path, decoded */
    size_t capture_count;
    const struct web_pair *queries; /* decoded, in their order */
    size_t query_count;
    const char *body; /* not NULL */
    size_t body_len;
    bool has_begun;
    bool is_broken; /* set by the handler if it stops before the end: the client must notice that the answer is incomplete */
    struct web_response response;
};

/* Never NULL for a name in the route's path. */
const char *web_capture(const struct web *web, const char *name);
/* The first value of that name; NULL: none. */
const char *web_query(const struct web *web, const char *name);
/* `name` is lower-case. NULL: the client did not send it. */
const char *web_header(const struct web *web, const char *name);

/* Copies both. Drops headers beyond WEB_HEADERS_MAX. */
void web_add_header(struct web *web, const char *name, const char *value);
void web_response_add_header(struct web_response *response, const char *name, const char *value);

/* Sets the whole answer and takes the value. NULL is a bug of the caller and becomes a 500. */
void web_answer_json(struct web *web, int status, json_t *value);

/* Appends the value as text and takes it, for long lists whose JSON tree would take many times the memory of its text. False: the value cannot be
 * written, and nothing was added. */
bool web_add_json(struct buf *out, json_t *value);
/* Sets the whole answer and empties `text`. */
void web_answer_json_text(struct web *web, int status, struct buf *text);

int web_begin(struct web *web);
int web_write(struct web *web, const void *bytes, size_t len);
/* Waits until everything that was written has left this process. 0: it has; -ECANCELED, also for a HEAD request, whose body nobody wants. */
int web_drain(struct web *web);
/* Sends one event; the first one calls web_begin(). Each line of `text` becomes a line of data. `event` and `id` may be NULL. */
int web_event(struct web *web, const char *event, const char *id, const char *text, size_t len);

/* Upgrades the connection to a WebSocket, which takes the place of an answer. Always call web_hang_up() afterwards. -EPROTONOSUPPORT if the
 * client did not ask for one, -ECANCELED. `options` may be NULL. */
int web_upgrade(struct web *web, const struct websocket_options *options, websocket_fn fn, void *cookie, struct websocket **ret,
                struct err *err);
void web_hang_up(struct web *web, struct websocket *socket);

/* {"error", "code", "success": false, "hint"?, "retryable"?, "details"?}. `hint` and `details` may be NULL. */
void web_add_error(struct buf *out, int status, const char *message, const char *hint, bool is_retryable, json_t *details);

void web_response_done(struct web_response *response);
