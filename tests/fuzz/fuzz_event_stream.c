/*
 * A server's events: whatever it sends, and however it is cut, the same events come of it.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "client/event_stream.h"

static int note(const char *name, const char *data, size_t len, void *cookie, struct err *err)
{
    struct buf *out = cookie;

    (void) err;
    buf_add(out, name, strlen(name) + 1);
    buf_add(out, data, len);
    buf_add_char(out, '\0');
    return 0;
}

static void feed(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
    struct event_stream stream;
    struct err err = ERR_NONE;

    event_stream_init(&stream, note, out);
    for (size_t at = 0; at < size; at += piece)
        require(event_stream_feed(&stream, (const char *) data + at, size - at < piece ? size - at : piece, &err) == 0);
    event_stream_done(&stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(buf) struct buf whole = BUF_EMPTY;
    autodone(buf) struct buf cut = BUF_EMPTY;

    if (size == 0)
        return 0;
    feed(data, size, size, &whole);
    feed(data, size, 1 + data[0] % 7, &cut);
    require(whole.len == cut.len && (whole.len == 0 || memcmp(whole.data, cut.data, whole.len) == 0));
    return 0;
}
