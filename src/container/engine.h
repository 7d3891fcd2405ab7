/*
 * A client of a Docker engine on its unix socket, for one request at a time.
 *
 * A response is kept up to ENGINE_RESPONSE_MAX bytes; an endless one is passed on piece by piece. Every request ends early with
 * -ECANCELED when the stop descriptor becomes readable. That does not stop the engine, so a request that creates something gets
 * time to be answered. The paths contain no API version: every engine then uses its own, and the parts we use have not changed
 * since 1.40.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#define ENGINE_SOCKET "/var/run/docker.sock"
#define ENGINE_RESPONSE_MAX (4u << 20)

struct engine;

/* Does not connect yet. `stop_fd` is borrowed; -1: nothing ends requests early. */
int engine_new(const char *socket_path, int stop_fd, struct engine **ret, struct err *err);
void engine_free(struct engine *engine);
DEFINE_AUTOPTR(engine, engine_free);

/* From now on requests do not end early: what is left to do is removal. */
void engine_ignore_stop(struct engine *engine);

/* Gets a piece of a response. Negative: stops the transfer. */
typedef int (*engine_piece_fn)(const void *bytes, size_t len, void *cookie);

struct engine_request {
    const char *method, *path;
    const char *body;      /* JSON; NULL: none */
    int timeout_ms;        /* for the whole response; 0: unlimited */
    int silence_ms;        /* maximum silence, for unlimited responses */
    int finish_ms;         /* how long to wait for the answer after a stop */
    engine_piece_fn piece; /* for responses with status 200; NULL: they are kept */
    void *cookie;
};

struct engine_response {
    long status; /* the HTTP status */
    struct buf body;
};

#define ENGINE_RESPONSE_NONE ((struct engine_response){ .body = BUF_EMPTY })

void engine_response_done(struct engine_response *response);

/* Returns 0 for any HTTP status. Clears `response` first. */
int engine_send(struct engine *engine, const struct engine_request *request, struct engine_response *response, struct err *err);
