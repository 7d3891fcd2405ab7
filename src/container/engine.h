/*
 * A Docker engine, asked over its unix socket, one question at a time.
 *
 * An answer is kept up to ENGINE_RESPONSE_MAX bytes; one that comes without end is handed on piece by piece instead. Whatever is
 * asked ends early, with -ECANCELED, when the descriptor that was named for it becomes readable; an engine does not end it for that,
 * so what makes something is asked with time to be answered in. Paths carry no version of the API:
 * every engine then answers with its own, and what we use of it has not changed since 1.40.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#define ENGINE_SOCKET "/var/run/docker.sock"
#define ENGINE_RESPONSE_MAX (4u << 20)

struct engine;

/* Nothing is asked yet. `stop_fd` is borrowed; -1: nothing ends it early. */
int engine_new(const char *socket_path, int stop_fd, struct engine **ret, struct err *err);
void engine_free(struct engine *engine);
DEFINE_AUTOPTR(engine, engine_free);

/* From here on to the end: what is left to do is taking away. */
void engine_ignore_stop(struct engine *engine);

/* A part of an answer. Negative: no more of it is wanted. */
typedef int (*engine_piece_fn)(const void *bytes, size_t len, void *cookie);

struct engine_request {
    const char *method, *path;
    const char *body;      /* JSON; NULL: none */
    int timeout_ms;        /* for the whole answer; 0: none, */
    int silence_ms;        /* but then it may not be silent for longer */
    int finish_ms;         /* told to stop meanwhile, it is waited for as long as this */
    engine_piece_fn piece; /* for answers of 200; NULL: they are kept */
    void *cookie;
};

struct engine_response {
    long status; /* of HTTP */
    struct buf body;
};

#define ENGINE_RESPONSE_NONE ((struct engine_response){ .body = BUF_EMPTY })

void engine_response_done(struct engine_response *response);

/* 0 with whatever it answered, also that it failed. `response` is emptied first. */
int engine_send(struct engine *engine, const struct engine_request *request, struct engine_response *response, struct err *err);
