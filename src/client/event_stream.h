/*
 * Parses server-sent events as they arrive. Skips comments, which servers send to keep a quiet connection open, and refuses an event that is too
 * large.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define EVENT_STREAM_BYTES_MAX ((size_t) 8 << 20)

/* Receives an event. `name` is "message" if the server gave none. A negative return ends the stream. */
typedef int (*event_stream_fn)(const char *name, const char *data, size_t len, void *cookie, struct err *err);

struct event_stream {
    event_stream_fn fn;
    void *cookie;
    struct buf line, name, data;
    bool has_data;
};

void event_stream_init(struct event_stream *stream, event_stream_fn fn, void *cookie);
void event_stream_done(struct event_stream *stream);

int event_stream_feed(struct event_stream *stream, const char *bytes, size_t len, struct err *err);
