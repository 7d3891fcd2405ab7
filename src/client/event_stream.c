#include "client/event_stream.h"

#include <errno.h>
#include <string.h>

void event_stream_init(struct event_stream *stream, event_stream_fn fn, void *cookie)
{
    *stream = (struct event_stream){ .fn = fn, .cookie = cookie };
}

void event_stream_done(struct event_stream *stream)
{
    buf_done(&stream->line);
    buf_done(&stream->name);
    buf_done(&stream->data);
}

static int dispatch(struct event_stream *stream, struct err *err)
{
    int r = 0;

    if (stream->has_data)
        r = stream->fn(stream->name.len > 0 ? stream->name.data : "message", stream->data.data ? stream->data.data : "",
                       stream->data.len, stream->cookie, err);
    buf_clear(&stream->name);
    buf_clear(&stream->data);
    stream->has_data = false;
    return r;
}

/* Parses "field: value". One blank after the colon does not belong to the value. */
static int take_line(struct event_stream *stream, const char *line, size_t len, struct err *err)
{
    const char *colon = memchr(line, ':', len);
    size_t name_len = colon ? (size_t) (colon - line) : len;
    const char *value = colon ? colon + 1 : line + len;
    size_t value_len;

    if (len == 0)
        return dispatch(stream, err);
    if (value < line + len && *value == ' ')
        value++;
    value_len = (size_t) (line + len - value);
    if (name_len == 5 && memcmp(line, "event", 5) == 0) {
        buf_clear(&stream->name);
        buf_add(&stream->name, value, value_len);
    } else if (name_len == 4 && memcmp(line, "data", 4) == 0) {
        if (stream->has_data)
            buf_add_char(&stream->data, '\n');
        buf_add(&stream->data, value, value_len);
        stream->has_data = true;
    }
    return 0;
}

int event_stream_feed(struct event_stream *stream, const char *bytes, size_t len, struct err *err)
{
    const char *at = bytes, *end = bytes + len;

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t) (end - at));
        size_t n = (size_t) ((stop ? stop : end) - at);
        int r;

        if (n > EVENT_STREAM_BYTES_MAX || stream->line.len + stream->data.len > EVENT_STREAM_BYTES_MAX - n)
            return err_set(err, ERR_RESOURCE_EXHAUSTED, -EMSGSIZE, "the server sent an event that is too large");
        buf_add(&stream->line, at, n);
        if (!stop)
            return 0;
        if (stream->line.len > 0 && stream->line.data[stream->line.len - 1] == '\r')
            stream->line.data[--stream->line.len] = '\0';
        r = take_line(stream, stream->line.data ? stream->line.data : "", stream->line.len, err);
        if (r < 0)
            return r;
        buf_clear(&stream->line);
        at = stop + 1;
    }
    return 0;
}
