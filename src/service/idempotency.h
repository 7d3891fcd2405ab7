/*
 * Requests with an idempotency key are executed once, however often they are sent.
 *
 * The id of the object that a request will create is chosen before the claim is taken, and the claim contains it. So a server that finds
 * the claim of a dead server can check whether the object was created, and recovery ends such claims (idempotency_recover). The answer to a
 * repeated request is made from the object.
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
    const char *key; /* "": no key; then no claim is taken */
    const char *method;
    const struct buf *request; /* a request with the same key must be equal to this */
    const char *resource_id;
    bool lasts; /* keep the claim for ever instead of a day */
};

#define IDEMPOTENCY_ANSWERED 1

/* No request takes longer than this, so an older open claim is one whose end could not be written. */
#define IDEMPOTENCY_OPEN_NS (INT64_C(600) * 1000000000)

/* Returns 0 for a new request: execute it, then call idempotency_end(). Returns IDEMPOTENCY_ANSWERED if it was executed before; `ret_id` is
 * the created object. ERR_ALREADY_EXISTS if the key was used for another request. ERR_ABORTED (-EALREADY) if the same request is being
 * executed now; `ret_id` is the object that it creates. `ret_id` may alias resource_id. */
int idempotency_take(struct service *service, const struct idempotency *claim, char ret_id[SANDBOX_ID_MAX], struct err *err);
/* `r` is the result of executing the request. With -EINPROGRESS it is unknown whether the object was created: the claim stays open unless a
 * lookup answers that. */
void idempotency_end(struct service *service, const struct idempotency *claim, int r, const char *id);

/* Ends this host's open claims that are older than `older_than_ns`: all of them at the start of the server, later those older than
 * IDEMPOTENCY_OPEN_NS. */
int idempotency_recover(struct service *service, int64_t older_than_ns, struct err *err);
