/*
 * Server-sent events, taken apart as they arrive. Comments, which keep a quiet connection alive, are passed over; an event that is larger than
 * anybody sends is refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define EVENT_STREAM_BYTES_MAX ((size_t) 8 << 20)

/* `name` is "message" where none was given. A negative errno ends it all. */
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
