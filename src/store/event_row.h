/*
 * The audit: what happened, in the order in which it was written down. A sequence is never used twice, also after old events
 * were trimmed, and an event is never seen before one with a smaller sequence: who has read up to N misses nothing by going on
 * from N.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "store/store.h"

struct event_row {
    int64_t sequence; /* the database's */
    int64_t time_ns;
    char *type; /* "sandbox_created"; all texts owned */
    char *sandbox_id;
    char *codebase_id;
    char *owner_id;
    char *host_id;
    char *payload; /* JSON, as it is to be shown */
};

struct event_rows {
    struct event_row *rows; /* owned */
    size_t count;
};

void event_row_done(struct event_row *row);
void event_rows_done(struct event_rows *rows);

/* All of them or none. On PostgreSQL appends wait for each other: whoever has many events collects them. The sequence of the
 * last may be of no interest: NULL. */
int event_row_append(struct store *store, const struct event_row *rows, size_t count, int64_t *ret_last, struct err *err);

/* What is NULL or 0 does not restrict. */
struct event_filter {
    int64_t after;  /* sequence */
    int64_t before; /* sequence */
    const char *type;
    const char *sandbox_id;
    const char *codebase_id;
    const char *owner_id;
    const char *host_id;
    int64_t since_ns;
    int64_t until_ns; /* not included */
    bool newest_first;
};

/* The next page begins after (newest first: before) the last sequence of this one. `limit` 0: STORE_PAGE_MAX. */
int event_row_query(struct store *store, const struct event_filter *filter, size_t limit, struct event_rows *ret,
                    struct err *err);

/* Of the oldest `limit` events, removes those from before `before_ns` and (`keep` > 0) those that about `keep` others came
 * after. Small steps, so that nobody waits long; again until it returns 0, how many it removed. */
int event_row_trim(struct store *store, int64_t before_ns, int64_t keep, unsigned limit, struct err *err);
