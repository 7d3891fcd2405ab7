/*
 * Requests with an idempotency key: done once, however often they are sent.
 *
 * What a request is about to make has its id before the claim is taken, and the claim names it. So whoever finds a claim of a server
 * that died knows whether it was made: recovery ends such claims (idempotency_recover). The answer is told anew from what is there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sandbox_id.h"

struct service;

/* All borrowed. */
struct idempotency {
    const char *owner;
    const char *key; /* "": none, and nothing is claimed */
    const char *method;
    const struct buf *request; /* what it is told apart by */
    const char *resource_id;
    bool lasts; /* it is answered for ever, and not only for a day */
};

#define IDEMPOTENCY_ANSWERED 1

/* No request is at work for longer, so a claim that is older and still open is one whose end could not be written. */
#define IDEMPOTENCY_OPEN_NS (INT64_C(600) * 1000000000)

/* 0: go on, and end it with idempotency_end(). IDEMPOTENCY_ANSWERED: it was done before, and `ret_id` is what was made. The same key with another
 * request is ERR_ALREADY_EXISTS, the same one that is going on right now ERR_ABORTED (-EALREADY), and `ret_id` is what is being made. `ret_id`
 * may be what resource_id points to. */
int idempotency_take(struct service *service, const struct idempotency *claim, char ret_id[SANDBOX_ID_MAX], struct err *err);
/* `r` is what doing it came to. Where nobody can tell whether it was done (-EINPROGRESS) the claim stays open until somebody can. */
void idempotency_end(struct service *service, const struct idempotency *claim, int r, const char *id);

/* Ends those of this host that were left open and are older than that: all of them at the start, later those older than IDEMPOTENCY_OPEN_NS. */
int idempotency_recover(struct service *service, int64_t older_than_ns, struct err *err);
