/*
 * What is remembered of a sandbox: how it was asked for, and what is intended with it. The supervisor knows what is so.
 *
 *     PENDING ── STARTING ── RUNNING ── STOPPING ── STOPPED ──▶ STARTING ...      each of them ──▶ ERROR, DESTROYING
 *
 * A status changes by sandbox_row_move() only, which names what it may have been before: of two who try at once, one does it
 * and the other is told. Which moves there are is for the caller to know. Every change counts row_version up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "store/label.h"
#include "store/store.h"

#define SANDBOX_ID_PREFIX "sb_"

/* The first five numbered as in the API; the others are intents that it shows as PENDING, RUNNING and STOPPED. In the database:
 * never renumbered. */
enum sandbox_status {
    SANDBOX_STATUS_UNSPECIFIED = 0,
    SANDBOX_STATUS_PENDING = 1,
    SANDBOX_STATUS_RUNNING = 2,
    SANDBOX_STATUS_STOPPED = 3,
    SANDBOX_STATUS_ERROR = 4,
    SANDBOX_STATUS_STARTING = 5,
    SANDBOX_STATUS_STOPPING = 6,
    SANDBOX_STATUS_DESTROYING = 7,
    SANDBOX_STATUS_COUNT,
};

#define SANDBOX_STATUS_BIT(status) (1u << (status))
#define SANDBOX_STATUS_ANY ((1u << SANDBOX_STATUS_COUNT) - 1)

const char *sandbox_status_name(enum sandbox_status status); /* "running" */

/* All texts and bytes owned. */
struct sandbox_row {
    char *id;
    char *codebase_id; /* "" for one over a live directory */
    char *scope_path;  /* that directory; "" for one over a codebase */
    char *owner_id;
    char *host_id;
    int status;   /* enum sandbox_status */
    char *reason; /* why it is ERROR */
    struct buf rules;
    struct label_list labels;
    int runtime; /* numbered as in the API */
    char *image;
    int64_t memory_bytes; /* limits: 0 is none given */
    int64_t cpu_quota;
    int64_t cpu_shares;
    int64_t pids_limit;
    int64_t disk_bytes;
    char *network;
    bool sync_on_completion;
    struct buf extra;   /* whatever else its owner keeps with it */
    int64_t created_ns; /* times: 0 is never */
    int64_t started_ns;
    int64_t stopped_ns;
    int64_t expires_ns;
    int64_t row_version;
};

struct sandbox_rows {
    struct sandbox_row *rows; /* owned */
    size_t count;
    char *next_token; /* owned; NULL when there are no more */
};

void sandbox_row_done(struct sandbox_row *row);
void sandbox_rows_done(struct sandbox_rows *rows);

/* Sets row_version to 1. With `max_per_owner` above 0, ERR_RESOURCE_EXHAUSTED (-EDQUOT) when the owner has as many, on all
 * hosts together; two who insert at once cannot both be the last. ERR_NOT_FOUND when its codebase is not there,
 * ERR_ALREADY_EXISTS. */
int sandbox_row_insert(struct store *store, struct sandbox_row *row, unsigned max_per_owner, struct err *err);

int sandbox_row_get(struct store *store, const char *id, struct sandbox_row *ret, struct err *err);

/* What is NULL or 0 does not restrict. */
struct sandbox_filter {
    const char *owner_id;
    const char *codebase_id;
    const char *host_id;
    unsigned statuses;               /* bits */
    const struct label_list *labels; /* it has all of them; at most 8 */
    int64_t expires_until_ns;        /* it has an end, and that is not later */
};

int sandbox_row_list(struct store *store, const struct sandbox_filter *filter, const struct store_page *page,
                     struct sandbox_rows *ret, struct err *err);
int sandbox_row_count(struct store *store, const struct sandbox_filter *filter, int64_t *ret, struct err *err);

/* One step of its life. */
struct sandbox_move {
    const char *id;
    unsigned from;       /* bits: what it must be now */
    int64_t row_version; /* and this one, unless 0 */
    enum sandbox_status to;
    const char *reason; /* kept with ERROR; NULL: "" */
    int64_t now_ns;     /* becomes started_ns with RUNNING, stopped_ns with STOPPED, and with ERROR if it ran */
};

/* ERR_NOT_FOUND; ERR_FAILED_PRECONDITION when it is not as `from` and `row_version` say, with its present status in
 * `ret_status`, which is also set on success (to `to`). STARTING is refused with ERR_NOT_FOUND when its codebase is gone. The
 * returns that are not needed may be NULL. */
int sandbox_row_move(struct store *store, const struct sandbox_move *move, enum sandbox_status *ret_status,
                     int64_t *ret_version, struct err *err);

/* Writes rules, labels, image, limits, network, sync_on_completion, extra and expires_ns, if the row is still of
 * row->row_version; counts that up. ERR_FAILED_PRECONDITION if it is not: get it again. */
int sandbox_row_update(struct store *store, struct sandbox_row *row, struct err *err);

/* With its sessions. */
int sandbox_row_delete(struct store *store, const char *id, struct err *err);
