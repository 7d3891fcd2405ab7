/*
 * Events: what happened, for later questions. An event goes to the log immediately. A thread of its own writes events to the store in
 * batches soon after, so that no command waits for the disk; queries read the store.
 *
 * Before that, secrets in the texts of a payload are removed (redaction.h), so they are neither logged nor stored.
 *
 * When the queue is full, events_add() waits; but it drops and counts refusals.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "service/caller.h"

struct service;

/* All borrowed except the payload. NULL: not given. */
struct event {
    const char *type; /* "sandbox_created", "command_executed", ... */
    const char *sandbox_id, *codebase_id, *owner;
    int64_t time_ns; /* 0: now */
    json_t *payload; /* an object; events_add() takes ownership */
};

void events_add(struct service *service, const struct event *event);

/* Start and stop the thread. Stopping waits until all events are in the store. */
int events_start(struct service *service, struct err *err);
void events_stop(struct service *service);

/* Waits until all events that were added before are in the store. Returns false without waiting while the database accepts none. */
bool events_flush(struct service *service);

struct event_query {
    const char *sandbox_id, *codebase_id, *type; /* "": any */
    int64_t since_ns;
    size_t page_size;
    const char *page_token;
    bool newest_first;
};

/* Strings owned. */
struct event_info {
    int64_t sequence, time_ns;
    char *type, *sandbox_id, *codebase_id, *owner, *payload;
};

struct event_page {
    struct event_info *items; /* owned */
    size_t count;
    char *next_token; /* owned */
};

void event_page_done(struct event_page *page);
int events_list(struct service *service, const struct caller *caller, const struct event_query *filter, struct event_page *ret,
                struct err *err);

/* Returns events of sandboxes over directories, the newest first, by offset. `sandbox_id` "": of all such sandboxes. Looks only at the
 * newest 20,000 events; `ret_total` counts the matches among these. */
int events_window(struct service *service, const struct caller *caller, const char *sandbox_id, size_t limit, size_t offset,
                  struct event_page *ret, int64_t *ret_total, struct err *err);
