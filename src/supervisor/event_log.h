/*
 * The last EVENT_LOG_MAX events of the sandbox, numbered, for a server that was away or reads slowly.
 *
 * An agent that searches causes many refusals: the log keeps at most EVENT_LOG_DENIALS_PER_MINUTE and counts the rest.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ctl_proto.h"

#define EVENT_LOG_MAX 1024
#define EVENT_LOG_TEXT_MAX 512 /* of each string; longer ones are truncated */
#define EVENT_LOG_DENIALS_PER_MINUTE 100

struct event_log_entry;

/* Called when an event was added. */
typedef void (*event_log_fn)(void *cookie);

struct event_log {
    struct event_log_entry **entries; /* owned ring, allocated with the first event */
    uint64_t last;                    /* number of the newest; 0: none yet */
    int64_t minute_began_ns;
    unsigned minute_count;
    uint64_t denial_count, dropped_count;
    event_log_fn fn;
    void *cookie;
};

void event_log_done(struct event_log *event_log);

/* Assigns the number and, if it is 0, the time. NULL strings become "". */
void event_log_add(struct event_log *event_log, const struct ctl_event *event);

/* Lends the first event after the given number that is still kept, and returns its number; 0 if there is none. */
uint64_t event_log_next(const struct event_log *event_log, uint64_t after, struct ctl_event *ret);
