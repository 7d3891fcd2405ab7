#include "container/pull.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define MEGA 1000000

void pull_init(struct pull *pull, pull_fn fn, void *cookie)
{
    *pull = (struct pull){ .fn = fn, .cookie = cookie, .reported_ns = INT64_MIN };
}

void pull_done(struct pull *pull)
{
    buf_done(&pull->line);
}

/* Returns NULL if the layer is not counted. */
static struct pull_layer *find_layer(struct pull *pull, const char *id)
{
    if (*id == '\0' || strlen(id) >= PULL_ID_MAX)
        return NULL;
    for (size_t i = 0; i < pull->layer_count; i++)
        if (strcmp(pull->layers[i].id, id) == 0)
            return &pull->layers[i];
    if (pull->layer_count == PULL_LAYERS_MAX)
        return NULL;
    struct pull_layer *layer = &pull->layers[pull->layer_count++];
    memcpy(layer->id, id, strlen(id) + 1);
    return layer;
}

static uint64_t size_of(const json_t *detail, const char *key)
{
    json_int_t value = response_number(detail, key, 0);

    return value > 0 ? (uint64_t) value : 0;
}

static void parse_layer(struct pull *pull, const json_t *news)
{
    const char *status = response_string(news, "status", "");
    const json_t *detail = json_object_get(news, "progressDetail");
    bool is_download = strcmp(status, "Downloading") == 0;
    bool is_complete = strcmp(status, "Pull complete") == 0 || strcmp(status, "Already exists") == 0;
    struct pull_layer *layer;

    if (!is_download && !is_complete && strcmp(status, "Pulling fs layer") != 0)
        return;
    layer = find_layer(pull, response_string(news, "id", ""));
    if (layer && is_download) {
        layer->size_bytes = size_of(detail, "total");
        layer->done_bytes = size_of(detail, "current");
    } else if (layer && is_complete) {
        layer->is_complete = true;
        layer->done_bytes = layer->size_bytes;
    }
}

static void parse_line(struct pull *pull)
{
    autoptr(json_t) news = json_loadb(pull->line.data ? pull->line.data : "", pull->line.len, 0, NULL);
    autodone(buf) struct buf text = BUF_EMPTY;
    const char *error = response_string(news, "error", NULL);

    if (!error) {
        parse_layer(pull, news);
        return;
    }
    response_add_text(&text, error);
    pull->has_failed = true;
    snprintf(pull->error, sizeof(pull->error), "%s", text.data ? text.data : "");
}

void pull_summary(const struct pull *pull, struct buf *out)
{
    uint64_t done = 0, size = 0;
    size_t complete = 0;

    for (size_t i = 0; i < pull->layer_count; i++) {
        complete += pull->layers[i].is_complete;
        done += pull->layers[i].done_bytes / MEGA;
        size += pull->layers[i].size_bytes / MEGA;
    }
    buf_addf(out, "%zu of %zu layers, %llu of %llu MB", complete, pull->layer_count, (unsigned long long) done,
             (unsigned long long) size);
}

static void pull_report_progress(struct pull *pull, int64_t now_ns)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    if (pull->layer_count == 0 || (pull->reported_ns != INT64_MIN && now_ns - pull->reported_ns < CLOCK_NS_PER_SEC))
        return;
    pull->reported_ns = now_ns;
    pull_summary(pull, &text);
    pull->fn(text.data, pull->cookie);
}

void pull_feed(struct pull *pull, const void *bytes, size_t len, int64_t now_ns)
{
    const char *at = bytes;

    for (size_t i = 0; i < len; i++) {
        if (at[i] == '\n') {
            if (!pull->is_skipping)
                parse_line(pull);
            pull->is_skipping = false;
            buf_clear(&pull->line);
        } else if (pull->line.len == PULL_LINE_MAX) {
            pull->is_skipping = true;
        } else {
            buf_add_char(&pull->line, at[i]);
        }
    }
    pull_report_progress(pull, now_ns);
}
