/*
 * What happened, for those who have to know later: into the log at once, into the store soon (in batches, by a thread of its own, so
 * that no command waits for the disk), from where it can be asked for.
 *
 * Secrets that the texts of a payload show are taken out first (redaction.h): they are neither logged nor stored.
 *
 * A full line of waiting events makes whoever adds one wait, but for refusals, which are dropped and counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "service/caller.h"

struct service;

/* All borrowed but for the payload; NULL: none. */
struct event {
    const char *type; /* "sandbox_created", "command_executed", ... */
    const char *sandbox_id, *codebase_id, *owner;
    int64_t time_ns; /* 0: now */
    json_t *payload; /* an object, taken over */
};

void events_add(struct service *service, const struct event *event);

/* Begins and ends the thread; the end waits until everything is in the store. */
int events_start(struct service *service, struct err *err);
void events_stop(struct service *service);

/* Waits until what was added so far is in the store. False: the database takes none now, and nobody waits for it. */
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

/* The newest first, by number, of sandboxes over directories; `sandbox_id` "": of all of them. `ret_total` counts those among the newest
 * 20,000 events, which is as far as this looks. */
int events_window(struct service *service, const struct caller *caller, const char *sandbox_id, size_t limit, size_t offset,
                  struct event_page *ret, int64_t *ret_total, struct err *err);
