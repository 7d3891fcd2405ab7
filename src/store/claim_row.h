/*
 * Idempotency keys: a request with a key is done once, and whoever sends it again gets the answer of the first time.
 *
 *     claim_row_take()     CLAIM_TAKEN: it is yours; do it, then claim_row_finish() with the answer, or claim_row_release()
 *                          CLAIM_FINISHED: the answer is in the row
 *
 * A process that dies in between leaves its claims open; when it starts again it finds them with claim_row_list_open(), sees by
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

struct claim_row {
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

struct claim_rows {
    struct claim_row *rows; /* owned */
    size_t count;
};

enum claim_outcome { CLAIM_TAKEN, CLAIM_FINISHED };

void claim_row_done(struct claim_row *row);
void claim_rows_done(struct claim_rows *rows);

/* `row` says who asks for what; is_finished and response are not looked at. `now_ns` is compared with expires_ns of what is
 * there. ERR_ALREADY_EXISTS: the key was used for another request. ERR_ABORTED (-EALREADY): somebody is at it right now.
 * `ret_row` is filled with CLAIM_FINISHED, and after -EALREADY. */
int claim_row_take(struct store *store, const struct claim_row *row, int64_t now_ns, enum claim_outcome *ret_outcome,
                   struct claim_row *ret_row, struct err *err);

/* ERR_NOT_FOUND when there is no such claim. */
int claim_row_finish(struct store *store, const char *owner_id, const char *idempotency_key, const void *response, size_t len,
                     int64_t expires_ns, struct err *err);

/* It was not done after all: the key is free again. One that is finished stays. */
int claim_row_release(struct store *store, const char *owner_id, const char *idempotency_key, struct err *err);

/* The oldest that are not finished, at most STORE_PAGE_MAX. */
int claim_row_list_open(struct store *store, const char *host_id, struct claim_rows *ret, struct err *err);

/* Removes what is over. Returns how many, at most `limit`. */
int claim_row_trim(struct store *store, int64_t now_ns, unsigned limit, struct err *err);
