/*
 * What an engine tells while it fetches an image: one JSON object a line, for every layer again and again. Here that becomes one
 * line for a person, at most once a second, and an error if there was one. It all comes from a registry in the end: lines too long are
 * passed over, more layers than PULL_LAYERS_MAX are not counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "container/response.h"

#define PULL_LINE_MAX 65536
#define PULL_LAYERS_MAX 128
#define PULL_ID_MAX 24

typedef void (*pull_fn)(const char *text, void *cookie);

struct pull_layer {
    char id[PULL_ID_MAX];
    uint64_t done_bytes, size_bytes;
    bool is_complete;
};

struct pull {
    struct pull_layer layers[PULL_LAYERS_MAX];
    size_t layer_count;
    struct buf line; /* what came of it */
    bool is_skipping;
    bool has_failed;
    char error[RESPONSE_SHOWN_MAX + 8]; /* escaped */
    int64_t reported_ns;
    pull_fn fn;
    void *cookie;
};

void pull_init(struct pull *pull, pull_fn fn, void *cookie);
void pull_done(struct pull *pull);

/* Bytes as they come, cut anywhere. `now_ns` decides whether the second is over. */
void pull_feed(struct pull *pull, const void *bytes, size_t len, int64_t now_ns);

/* "2 of 5 layers, 12 of 48 MB" */
void pull_summary(const struct pull *pull, struct buf *out);
