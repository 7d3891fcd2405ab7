/*
 * What a client did with its last streams: nghttp2 forgets a stream when it is closed, and then cannot tell a frame that crossed our
 * reset, which is sound, from one that the client sent after its own last word, which is not. Streams that lie further back are not
 * remembered, and not judged.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define STREAM_HISTORY_KEPT 512 /* streams: more than may be open at once */

struct stream_history {
    uint32_t last_id; /* the highest that was opened */
    uint64_t opened[STREAM_HISTORY_KEPT / 64];
    uint64_t ended[STREAM_HISTORY_KEPT / 64]; /* by the client, which sends nothing more there */
};

enum stream_check {
    STREAM_SOUND,   /* or not known to be otherwise */
    STREAM_SKIPPED, /* the client went past this id without opening it */
    STREAM_ENDED,   /* the client had ended it */
};

/* Notes the stream of a header block, if it is a new one; otherwise says what is to be thought of it. */
enum stream_check stream_history_open(struct stream_history *past, int32_t id);
void stream_history_end(struct stream_history *past, int32_t id);
