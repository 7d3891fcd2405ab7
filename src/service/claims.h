/*
 * Requests with an idempotency key: done once, however often they are sent.
 *
 * What a request is about to make has its id before the claim is taken, and the claim names it. So whoever finds a claim of a server
 * that died knows whether it was made: recovery ends such claims (claims_recover). The answer is told anew from what is there.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"

struct service;

/* All borrowed. */
struct claim {
    const char *owner;
    const char *key; /* "": none, and nothing is claimed */
    const char *method;
    const struct buf *request; /* what it is told apart by */
    const char *resource_id;
};

#define CLAIM_ANSWERED 1

/* 0: go on, and end it with claim_end(). CLAIM_ANSWERED: it was done before, and `ret_id` is what was made. The same key with another
 * request is ERR_ALREADY_EXISTS, the same one that is going on right now ERR_ABORTED. `ret_id` may be what resource_id points to. */
int claim_take(struct service *service, const struct claim *claim, char ret_id[ID_TEXT_MAX], struct err *err);
void claim_end(struct service *service, const struct claim *claim, bool is_done, const char *id);

/* At the start: claims that a server of this host left. */
int claims_recover(struct service *service, struct err *err);
