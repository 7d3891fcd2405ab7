/*
 * Idempotency keys: a request with a key is done once, and whoever sends it again gets the answer of the first time.
 *
 *     idempotency_row_take()     IDEMPOTENCY_TAKEN: it is yours; do it, then idempotency_row_finish() with the answer, or idempotency_row_release()
 *                          IDEMPOTENCY_FINISHED: the answer is in the row
 *
 * A process that dies in between leaves its claims open; when it starts again it finds them with idempotency_row_list_open(), sees by
 * resource_id (chosen before the claim) whether the thing was done, and finishes or releases each.
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
    char *resource_id; /* what the request is about to make; "" when it makes nothing */
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

/* `row` says who asks for what; is_finished and response are not looked at. `now_ns` is compared with expires_ns of what is
 * there. ERR_ALREADY_EXISTS: the key was used for another request. ERR_ABORTED (-EALREADY): somebody is at it right now.
 * `ret_row` is filled with IDEMPOTENCY_FINISHED, and after -EALREADY. */
int idempotency_row_take(struct store *store, const struct idempotency_row *row, int64_t now_ns,
                         enum idempotency_outcome *ret_outcome, struct idempotency_row *ret_row, struct err *err);

/* ERR_NOT_FOUND when there is no such claim. */
int idempotency_row_finish(struct store *store, const char *owner_id, const char *idempotency_key, const void *response,
                           size_t len, int64_t expires_ns, struct err *err);

/* It was not done after all: the key is free again. One that is finished stays. */
int idempotency_row_release(struct store *store, const char *owner_id, const char *idempotency_key, struct err *err);

/* The oldest that are not finished, at most STORE_PAGE_MAX. */
int idempotency_row_list_open(struct store *store, const char *host_id, struct idempotency_rows *ret, struct err *err);

/* Removes what is over. Returns how many, at most `limit`. */
int idempotency_row_trim(struct store *store, int64_t now_ns, unsigned limit, struct err *err);
