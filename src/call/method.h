/*
 * A method of the API, described once. gRPC finds it by its name and REST by its route, reflection and the OpenAPI page describe it, and
 * one handler serves all of them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"

struct call;
struct request;

/*
 * Serves one call in a thread of its own and may block. It receives requests with call_recv() and answers with call_send(). Its return value
 * ends the call: 0, or a negative errno with `err` filled in, whose code and text the client gets. `cookie` is the table's.
 */
typedef int (*method_fn)(struct call *call, void *cookie, struct err *err);

/* Serves the single request of a call. The method's `run` calls it. The module that fills the table defines `struct request`. */
typedef int (*method_serve_fn)(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err);

enum method_flag {
    METHOD_CLIENT_STREAMS = 1 << 0, /* any number of requests, otherwise exactly one */
    METHOD_SERVER_STREAMS = 1 << 1, /* any number of answers, otherwise exactly one */
    METHOD_PUBLIC = 1 << 2,         /* for everybody, without authentication */
    METHOD_LASTS = 1 << 3,  /* it lasts as long as something that the client started, such as a command; streams always do */
    METHOD_STRICT = 1 << 4, /* refuses a request with an unknown field: the decision cannot be taken back, and skipping a
                               condition would decide otherwise than the client meant */
};

/* How the messages of a method are carried over HTTP. */
enum method_body {
    METHOD_BODY_NONE, /* the request is made of path and query alone */
    METHOD_BODY_JSON, /* the body is the whole request as JSON; an empty body is an empty message, and fields of the path win */
    METHOD_BODY_BYTES, /* the body is file content: the first message has the field `metadata`, made of path and query, and each
                          further message has a piece of the body in the field `data` */
};

enum method_answer {
    METHOD_ANSWER_JSON,
    METHOD_ANSWER_EVENTS, /* server-sent events, one for each message */
    METHOD_ANSWER_BYTES,  /* the body is the concatenation of the fields `data` of all messages */
};

/* An HTTP route to a method. In `path`, "{name}" matches one component and "{name=**}" the rest; the match becomes the field `name` of the request. */
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
    struct method_route routes[METHOD_ROUTES_MAX]; /* entries without a verb are unused */
    const char *summary;                           /* one line, for the OpenAPI page */
    method_serve_fn serve;                         /* for `run`; may be NULL */
};

/* Whether the call's duration depends on the client, or on what the client started, and not on the server's work alone. */
static inline bool method_lasts(const struct method *method)
{
    return method->flags & (METHOD_CLIENT_STREAMS | METHOD_SERVER_STREAMS | METHOD_LASTS);
}

/* All methods of a server. Borrowed; outlives its users. */
struct method_table {
    const struct method *methods;
    size_t count;
    void *cookie; /* for the handlers */
};

/* NULL if there is no such method. */
const struct method *method_find(const struct method_table *table, const char *service, const char *name);
