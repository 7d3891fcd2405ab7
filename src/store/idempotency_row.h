/*
 * Idempotency keys: a request with a key is carried out once. Repetitions get the first answer.
 *
 *     idempotency_row_take()     IDEMPOTENCY_TAKEN: carry the request out, then call idempotency_row_finish() with the answer, or
 *                                idempotency_row_release()
 *                                IDEMPOTENCY_FINISHED: the answer is in the row
 *
 * A process that dies in between leaves its claims open. After its restart it lists them by idempotency_row_list_open(). The
 * resource_id, chosen before the claim, shows whether the request was carried out. The process then finishes or releases each
 * claim.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "store/store.h"

struct idempotency_row {
    char *owner_id; /* all owned */
    char *idempotency_key;
    char *method;
    struct buf hash; /* of the request */
    char *host_id;
    char *resource_id; /* the resource that the request makes; "" if it makes none */
    bool is_finished;
    struct buf response;
    int64_t created_ns;
    int64_t expires_ns;
};

struct idempotency_rows {
    struct idempotency_row *rows; /* owned */
    size_t count;
};

enum idempotency_outcome { IDEMPOTENCY_TAKEN, IDEMPOTENCY_FINISHED };

void idempotency_row_done(struct idempotency_row *row);
void idempotency_rows_done(struct idempotency_rows *rows);

/* Ignores is_finished and response of `row`. Compares `now_ns` with expires_ns of an existing claim. ERR_ALREADY_EXISTS: the
 * key was used for another request. ERR_ABORTED (-EALREADY): the first request is still running. Fills in `ret_row` for
 * IDEMPOTENCY_FINISHED and after -EALREADY. */
int idempotency_row_take(struct store *store, const struct idempotency_row *row, int64_t now_ns,
                         enum idempotency_outcome *ret_outcome, struct idempotency_row *ret_row, struct err *err);

/* ERR_NOT_FOUND if there is no such claim. */
int idempotency_row_finish(struct store *store, const char *owner_id, const char *idempotency_key, const void *response,
                           size_t len, int64_t expires_ns, struct err *err);

/* Frees the key, because the request was not carried out. A finished claim stays. */
int idempotency_row_release(struct store *store, const char *owner_id, const char *idempotency_key, struct err *err);

/* The oldest open claims, at most STORE_PAGE_MAX. */
int idempotency_row_list_open(struct store *store, const char *host_id, struct idempotency_rows *ret, struct err *err);

/* Removes expired claims. Returns how many, at most `limit`. */
int idempotency_row_trim(struct store *store, int64_t now_ns, unsigned limit, struct err *err);
