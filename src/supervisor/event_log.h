/*
 * What happened in the sandbox, numbered: the last EVENT_LOG_MAX events, for a server that was away or reads slowly.
 *
 * Refusals are many when an agent searches: at most EVENT_LOG_DENIALS_PER_MINUTE are kept, the others counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ctl_proto.h"

#define EVENT_LOG_MAX 1024
#define EVENT_LOG_TEXT_MAX 512 /* of each string; longer ones are cut */
#define EVENT_LOG_DENIALS_PER_MINUTE 100

struct event_log_entry;

/* Somebody waits for events. */
typedef void (*event_log_fn)(void *cookie);

struct event_log {
    struct event_log_entry **entries; /* owned ring, made when the first comes */
    uint64_t last;                    /* number of the newest; 0: none yet */
    int64_t minute_began_ns;
    unsigned minute_count;
    uint64_t denial_count, dropped_count;
    event_log_fn fn;
    void *cookie;
};

void event_log_done(struct event_log *event_log);

/* Number and, when it is 0, time are given here; NULL strings are "". */
void event_log_add(struct event_log *event_log, const struct ctl_event *event);

/* The first that is kept after the given number, lent; 0 when there is none. */
uint64_t event_log_next(const struct event_log *event_log, uint64_t after, struct ctl_event *ret);
