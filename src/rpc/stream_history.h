/*
 * What a client did with its last streams. nghttp2 forgets a closed stream. Then it cannot distinguish a frame that crossed our
 * reset, which is legal, from a frame that the client sent after ending the stream, which is not. Older streams are forgotten
 * and not checked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define STREAM_HISTORY_KEPT 512 /* streams: more than can be open at once */

struct stream_history {
    uint32_t last_id; /* the highest opened id */
    uint64_t opened[STREAM_HISTORY_KEPT / 64];
    uint64_t ended[STREAM_HISTORY_KEPT / 64]; /* by the client, which must send nothing more there */
};

enum stream_check {
    STREAM_SOUND,   /* legal, or unknown */
    STREAM_SKIPPED, /* the client skipped this id without opening it */
    STREAM_ENDED,   /* the client has ended it */
};

/* Checks the stream of a header block. Records it if it is new. */
enum stream_check stream_history_open(struct stream_history *past, int32_t id);
void stream_history_end(struct stream_history *past, int32_t id);
