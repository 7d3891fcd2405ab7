/*
 * The audit log: events in the order of their insertion. A sequence number is never reused, even after old events are removed.
 * No event becomes visible after one with a larger number, so a reader that continues from the last number it saw misses
 * nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "store/store.h"

struct event_row {
    int64_t sequence; /* assigned by the database */
    int64_t time_ns;
    char *type; /* "sandbox_created"; all texts owned */
    char *sandbox_id;
    char *codebase_id;
    char *owner_id;
    char *host_id;
    char *payload; /* JSON, shown unchanged */
};

struct event_rows {
    struct event_row *rows; /* owned */
    size_t count;
};

void event_row_done(struct event_row *row);
void event_rows_done(struct event_rows *rows);

/* Appends all or none. On PostgreSQL appends wait for each other, so collect events before appending them. `ret_last`, the last
 * event's number, may be NULL. */
int event_row_append(struct store *store, const struct event_row *rows, size_t count, int64_t *ret_last, struct err *err);

/* NULL or 0 does not restrict. */
struct event_filter {
    int64_t after;  /* sequence number, exclusive */
    int64_t before; /* sequence number, exclusive */
    const char *type;
    const char *sandbox_id;
    const char *codebase_id;
    const char *owner_id;
    const char *host_id;
    int64_t since_ns;
    int64_t until_ns; /* exclusive */
    bool newest_first;
};

/* The next page begins after (newest first: before) the last number of this page. `limit` 0: STORE_PAGE_MAX. */
int event_row_query(struct store *store, const struct event_filter *filter, size_t limit, struct event_rows *ret,
                    struct err *err);

/* Looks at the oldest `limit` events. Removes those before `before_ns` and, if `keep` > 0, those that about `keep` newer events
 * follow. The steps are small so that other writers do not wait long. Returns how many it removed; repeat until 0. */
int event_row_trim(struct store *store, int64_t before_ns, int64_t keep, unsigned limit, struct err *err);
