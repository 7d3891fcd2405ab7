/*
 * The progress that an engine reports while it fetches an image: a JSON object per line, repeatedly for every layer. This turns
 * it into one line for a person, at most once a second, and an error if there was one. The data comes from a registry in the
 * end: overlong lines are skipped, and layers beyond PULL_LAYERS_MAX are not counted.
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
    struct buf line; /* the current line so far */
    bool is_skipping;
    bool has_failed;
    char error[RESPONSE_SHOWN_MAX + 8]; /* escaped */
    int64_t reported_ns;
    pull_fn fn;
    void *cookie;
};

void pull_init(struct pull *pull, pull_fn fn, void *cookie);
void pull_done(struct pull *pull);

/* Takes bytes as they arrive, split anywhere. `now_ns` decides whether a second has passed. */
void pull_feed(struct pull *pull, const void *bytes, size_t len, int64_t now_ns);

/* Adds "2 of 5 layers, 12 of 48 MB". */
void pull_summary(const struct pull *pull, struct buf *out);
