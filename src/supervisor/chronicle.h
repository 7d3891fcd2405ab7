/*
 * What happened in the sandbox, numbered: the last CHRONICLE_MAX events, for a server that was away or reads slowly.
 *
 * Refusals are many when an agent searches: at most CHRONICLE_DENIALS_PER_MINUTE are kept, the others counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ctl_proto.h"

#define CHRONICLE_MAX 1024
#define CHRONICLE_TEXT_MAX 512 /* of each string; longer ones are cut */
#define CHRONICLE_DENIALS_PER_MINUTE 100

struct chronicle_entry;

/* Somebody waits for events. */
typedef void (*chronicle_fn)(void *cookie);

struct chronicle {
    struct chronicle_entry **entries; /* owned ring, made when the first comes */
    uint64_t last;                    /* number of the newest; 0: none yet */
    int64_t minute_began_ns;
    unsigned minute_count;
    uint64_t denial_count, dropped_count;
    chronicle_fn fn;
    void *cookie;
};

void chronicle_done(struct chronicle *chronicle);

/* Number and, when it is 0, time are given here; NULL strings are "". */
void chronicle_add(struct chronicle *chronicle, const struct ctl_event *event);

/* The first that is kept after the given number, lent; 0 when there is none. */
uint64_t chronicle_next(const struct chronicle *chronicle, uint64_t after, struct ctl_event *ret);
