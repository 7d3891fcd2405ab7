/*
 * A method of the API, described once: gRPC finds it by its name, REST by its route, reflection and the OpenAPI page tell others
 * about it, and all of them end in the one handler.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"

struct call;
struct request;

/*
 * Serves one call, in a thread of its own: may block, takes requests with call_recv() and answers with call_send(). What it returns ends
 * the call: 0, or a negative errno with `err` filled in, whose code and text the client gets. `cookie` is the table's.
 */
typedef int (*method_fn)(struct call *call, void *cookie, struct err *err);

/* Serves the one request of a call; `run` of such methods calls it. What a `struct request` is, is the matter of whoever made the table. */
typedef int (*method_serve_fn)(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err);

enum method_flag {
    METHOD_CLIENT_STREAMS = 1 << 0, /* any number of requests, otherwise exactly one */
    METHOD_SERVER_STREAMS = 1 << 1, /* any number of answers, otherwise exactly one */
    METHOD_PUBLIC = 1 << 2,         /* for everybody, without authentication */
    METHOD_LASTS = 1 << 3,          /* as long as something of the client's does, such as a command; streams do anyway */
    METHOD_STRICT = 1 << 4, /* a request with a field that is not known is refused: what it decides cannot be taken back, and a
                               condition that is passed over would decide otherwise than its client meant */
};

/* How the messages of a method are carried over HTTP. */
enum method_body {
    METHOD_BODY_NONE, /* the request is made of path and query alone */
    METHOD_BODY_JSON, /* the body is the whole request as JSON, an empty one is an empty message; what the path says wins */
    METHOD_BODY_BYTES, /* the body is file content: the first message is its field `metadata`, made of path and query, each further
                          one a piece of the body in its field `data` */
};

enum method_answer {
    METHOD_ANSWER_JSON,
    METHOD_ANSWER_EVENTS, /* server-sent events, one for each message */
    METHOD_ANSWER_BYTES,  /* the fields `data` of all messages, one after the other, are the body */
};

/* A way to a method over HTTP. "{name}" in `path` takes one component, "{name=**}" the rest, each into the request's field. */
struct method_route {
    const char *verb;
    const char *path;
    enum method_body body;
    enum method_answer answer;
};

#define METHOD_ROUTES_MAX 3

struct method {
    const char *service; /* "sandbox.v1.SandboxService" */
    const char *name;    /* "CreateSandbox" */
    unsigned flags;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
    method_fn run;
    struct method_route routes[METHOD_ROUTES_MAX]; /* those with a verb */
    const char *summary;                           /* one line, for the OpenAPI page */
    method_serve_fn serve;                         /* for `run`; may be NULL */
};

/* Whether a call is over when the server has done its work, or when the client, or what it started, has. */
static inline bool method_lasts(const struct method *method)
{
    return method->flags & (METHOD_CLIENT_STREAMS | METHOD_SERVER_STREAMS | METHOD_LASTS);
}

/* Everything a server serves. Borrowed; lives longer than whoever uses it. */
struct method_table {
    const struct method *methods;
    size_t count;
    void *cookie; /* for the handlers */
};

/* NULL when there is none. */
const struct method *method_find(const struct method_table *table, const char *service, const char *name);
