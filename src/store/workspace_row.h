/*
 * What is remembered of a workspace: a sandbox over a live directory, whose changes are reviewed. How it was asked for, what is intended
 * with it, and what of the directory it has for itself.
 *
 *     CREATING ── ACTIVE ⇄ STOPPED        both ──▶ APPROVED, REJECTED        each of them ──▶ DELETED
 *         └──────────┴──▶ ERROR                     APPROVED, REJECTED, DELETED ──▶ STOPPED, if what they reserved is free
 *
 * A status changes by workspace_row_move() only, which knows the moves there are. Rows stay when their workspace is deleted.
 *
 * What it reserves are prefixes of paths: no other workspace of the host may reserve the same, one above or one beneath. It has them
 * from its insertion to its end, also while it is stopped; the check and the insertion are one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/uuid.h"
#include "store/store.h"

/* In the database: never renumbered. */
enum workspace_status {
    WORKSPACE_STATUS_NONE = 0,
    WORKSPACE_STATUS_CREATING = 1,
    WORKSPACE_STATUS_ACTIVE = 2,
    WORKSPACE_STATUS_STOPPED = 3,
    WORKSPACE_STATUS_APPROVED = 4,
    WORKSPACE_STATUS_REJECTED = 5,
    WORKSPACE_STATUS_DELETED = 6,
    WORKSPACE_STATUS_ERROR = 7,
    WORKSPACE_STATUS_COUNT,
};

#define WORKSPACE_STATUS_BIT(status) (1u << (status))
#define WORKSPACE_STATUS_ANY (((1u << WORKSPACE_STATUS_COUNT) - 1) & ~1u)
/* Those who have what they reserved. */
#define WORKSPACE_STATUS_LOCKING                                                                                               \
    (WORKSPACE_STATUS_BIT(WORKSPACE_STATUS_CREATING) | WORKSPACE_STATUS_BIT(WORKSPACE_STATUS_ACTIVE) |                         \
     WORKSPACE_STATUS_BIT(WORKSPACE_STATUS_STOPPED))

const char *workspace_status_name(enum workspace_status status); /* "active" */
bool workspace_status_parse(const char *name, enum workspace_status *ret);
/* Whether there is such a move. */
bool workspace_status_may(enum workspace_status from, enum workspace_status to);

/* All texts and bytes owned. */
struct workspace_row {
    char *id;         /* a UUID */
    char *account_id; /* who may see it; the owner below is a word of theirs */
    char *host_id;
    char *scope_path;
    char *project_root;
    char **reserved_paths; /* ended by NULL; clean and absolute */
    bool no_lock;
    char *owner;
    char *owner_type;
    int status;   /* enum workspace_status */
    char *reason; /* what went wrong last */
    char *driver;
    char *preset;
    struct buf rules;
    char *tags, *metadata, *behavior; /* JSON */
    char *idempotency_key;
    struct buf request_hash;
    char *base_commit;
    int64_t size_bytes, file_count;
    int64_t created_ns; /* times: 0 is never */
    int64_t used_ns;
    int64_t updated_ns;
    int64_t stopped_ns;
    int64_t approved_ns;
    int64_t closed_ns; /* approved or rejected */
    int64_t deleted_ns;
    struct buf extra; /* whatever else its owner keeps with it */
    int64_t row_version;
};

struct workspace_rows {
    struct workspace_row *rows; /* owned */
    size_t count;
};

void workspace_row_done(struct workspace_row *row);
void workspace_rows_done(struct workspace_rows *rows);

/* Who is in the way of what is to be reserved. */
enum workspace_overlap { WORKSPACE_OVERLAP_EXACT, WORKSPACE_OVERLAP_ABOVE, WORKSPACE_OVERLAP_BENEATH };

struct workspace_conflict {
    char id[UUID_TEXT_MAX];
    char *account_id, *owner;       /* owned */
    char *path, *wanted;            /* owned: what it has, and what of ours that meets */
    enum workspace_overlap overlap; /* where its path lies, seen from ours */
    enum workspace_status status;
};

struct workspace_conflicts {
    struct workspace_conflict *items; /* owned */
    size_t count, cap;
};

void workspace_conflicts_done(struct workspace_conflicts *conflicts);

/* What an insertion may come to beside a row: */
struct workspace_insertion {
    unsigned max;                         /* 0: any number; of this host, not deleted */
    char known_id[UUID_TEXT_MAX];         /* -EALREADY: the key was used before, for the same request, and made this */
    struct workspace_conflicts conflicts; /* -EBUSY; to be done with */
};

/* Sets row_version to 1. -EALREADY, -EBUSY (ERR_FAILED_PRECONDITION, SCOPE_CONFLICT) as above; ERR_ALREADY_EXISTS: the key was used for
 * another request; ERR_RESOURCE_EXHAUSTED (-EDQUOT). */
int workspace_row_insert(struct store *store, struct workspace_row *row, struct workspace_insertion *insertion,
                         struct err *err);

int workspace_row_get(struct store *store, const char *id, struct workspace_row *ret, struct err *err);

/* What is NULL or 0 does not restrict. */
struct workspace_filter {
    const char *account_id, *host_id;
    const char *owner, *project_root, *scope_path; /* exact */
    unsigned statuses;                             /* bits */
};

/* The newest first, or the oldest. `ret_total` may be NULL: how many there are without `limit` and `offset`. */
int workspace_row_list(struct store *store, const struct workspace_filter *filter, size_t limit, size_t offset,
                       bool oldest_first, struct workspace_rows *ret, int64_t *ret_total, struct err *err);

struct workspace_count {
    int64_t count, size_bytes;
};

/* By status. */
int workspace_row_count(struct store *store, const struct workspace_filter *filter,
                        struct workspace_count ret[WORKSPACE_STATUS_COUNT], struct err *err);

/* One step of its life. */
struct workspace_move {
    const char *id;
    unsigned from;       /* bits: what it must be now */
    int64_t row_version; /* and this one, unless 0 */
    enum workspace_status to;
    const char *reason; /* NULL: "" */
    bool forgets_key;   /* its idempotency key is free again */
    int64_t now_ns;
    struct workspace_insertion
        *insertion; /* of one that comes back: how many there may be, who is in the way; NULL: no matter */
};

/* ERR_NOT_FOUND; -ESTALE: ERR_FAILED_PRECONDITION when the status is another or the move does not exist (INVALID_STATE), ERR_ABORTED when
 * the version is (VERSION_MISMATCH). Who comes back from where nothing is reserved may also meet what an insertion may: -EBUSY, -EDQUOT. */
int workspace_row_move(struct store *store, const struct workspace_move *move, struct err *err);

/* Writes tags, metadata, behavior, base_commit and extra, if the row is still of row->row_version; counts that up. ERR_ABORTED if not. */
int workspace_row_update(struct store *store, struct workspace_row *row, struct err *err);

/* It was used now, unless that was noted less than a second ago. Not counted as a change. */
int workspace_row_touch(struct store *store, const char *id, int64_t now_ns, struct err *err);
/* How large its changes are. Not counted as a change either. */
int workspace_row_measure(struct store *store, const char *id, int64_t size_bytes, int64_t file_count, struct err *err);
