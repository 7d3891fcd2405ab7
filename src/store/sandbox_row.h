/*
 * What is remembered of a sandbox: over what it was made, with which options, and what is intended with it. The supervisor knows what is so.
 *
 * Two axes. Its life (`status`):
 *
 *     CREATING ─┬▶ PENDING ──▶ STARTING ──▶ RUNNING ──▶ STOPPING ──▶ STOPPED ──▶ STARTING ...
 *               └▶ RUNNING                  each of them ──▶ ERROR, DELETING;  at rest ──▶ DELETED ──▶ STOPPED
 *
 * And what was decided about its changes (`decision`): open, approved or rejected. A decided sandbox is at rest; whoever starts or restores
 * it opens it again. A row changes on either axis by sandbox_row_move() only, which knows the moves there are (sandbox_move.c). Every
 * change counts row_version up.
 *
 * A sandbox over a directory may reserve paths of the host: no other sandbox of the host may reserve the same, one above or one beneath.
 * It holds them while its decision is open and it is not deleted, also while it is stopped; one that could not be made holds nothing. The check and the insertion are one transaction.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/sandbox_id.h"
#include "store/label.h"
#include "store/store.h"

/* The first four numbered as in the API, which shows the others as one of them. In the database: never renumbered. */
enum sandbox_status {
    SANDBOX_STATUS_UNSPECIFIED = 0,
    SANDBOX_STATUS_PENDING = 1,
    SANDBOX_STATUS_RUNNING = 2,
    SANDBOX_STATUS_STOPPED = 3,
    SANDBOX_STATUS_ERROR = 4,
    SANDBOX_STATUS_STARTING = 5,
    SANDBOX_STATUS_STOPPING = 6,
    SANDBOX_STATUS_DELETING = 7,
    SANDBOX_STATUS_CREATING = 8,
    SANDBOX_STATUS_DELETED = 9,
    SANDBOX_STATUS_COUNT,
};

#define SANDBOX_STATUS_BIT(status) (1u << (status))
#define SANDBOX_STATUS_ANY ((1u << SANDBOX_STATUS_COUNT) - 1)

const char *sandbox_status_name(enum sandbox_status status); /* "running" */

/* In the database, too. */
enum sandbox_decision {
    SANDBOX_DECISION_OPEN = 0,
    SANDBOX_DECISION_APPROVED = 1,
    SANDBOX_DECISION_REJECTED = 2,
};

/* Both axes in one word, as reviewers and /api/v1 see them. Derived, and nowhere kept. */
enum sandbox_state {
    SANDBOX_STATE_NONE,
    SANDBOX_STATE_CREATING,
    SANDBOX_STATE_ACTIVE,  /* starting, running, stopping */
    SANDBOX_STATE_STOPPED, /* at rest, for whatever reason: it can be started */
    SANDBOX_STATE_APPROVED,
    SANDBOX_STATE_REJECTED,
    SANDBOX_STATE_DELETED,
    SANDBOX_STATE_ERROR, /* it could not be made; there is nothing but its row */
    SANDBOX_STATE_COUNT,
};

#define SANDBOX_STATE_BIT(state) (1u << (state))
#define SANDBOX_STATE_ANY (((1u << SANDBOX_STATE_COUNT) - 1) & ~1u)

const char *sandbox_state_name(enum sandbox_state state); /* "active" */
bool sandbox_state_parse(const char *name, enum sandbox_state *ret);

/* All texts and bytes owned. */
struct sandbox_row {
    char *id;
    char *name; /* "": none; no other of its owner's has the same */
    char *owner_id;
    char *host_id;
    char *codebase_id;     /* "" for one over a directory */
    char *scope_path;      /* that directory; "" for one over a codebase */
    char *project_root;    /* of one over a directory: which the directory lies in, or is */
    char **reserved_paths; /* ended by NULL; clean and absolute */
    bool no_lock;          /* it reserves none */
    int status;            /* enum sandbox_status */
    int decision;          /* enum sandbox_decision */
    char *reason;          /* what went wrong last */
    bool restarts;         /* the server starts it again when it ended while no server was there */
    char *creator;         /* for whom it was made, in the words of its owner, who sees it */
    char *creator_type;
    struct buf rules;
    char *preset; /* with which it was made */
    struct label_list labels;
    char *tags, *metadata, *behavior; /* JSON */
    int runtime;                      /* numbered as in the API */
    char *driver;
    char *image;
    int64_t memory_bytes; /* limits: 0 is none given */
    int64_t cpu_quota;
    int64_t cpu_shares;
    int64_t pids_limit;
    int64_t disk_bytes;
    char *network;
    bool sync_on_completion;
    char *base_commit;
    char *idempotency_key;          /* that it was asked for with, to be shown: what counts is the claim (idempotency_row.h) */
    struct buf extra;               /* whatever else its owner keeps with it */
    int64_t size_bytes, file_count; /* of its changes, when they were last measured */
    int64_t created_ns;             /* times: 0 is never */
    int64_t started_ns;
    int64_t used_ns;
    int64_t updated_ns;
    int64_t stopped_ns;
    int64_t approved_ns;
    int64_t closed_ns;  /* approved or rejected */
    int64_t deleted_ns; /* since then it has no files, or has them in the trash */
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

static inline bool sandbox_row_is_over_directory(const struct sandbox_row *row)
{
    return !*row->codebase_id;
}

enum sandbox_state sandbox_row_state(const struct sandbox_row *row);

/* ---- making one (sandbox_insert.c) ---- */

/* How a path of another sandbox lies, seen from ours. */
enum sandbox_overlap { SANDBOX_OVERLAP_EXACT, SANDBOX_OVERLAP_ABOVE, SANDBOX_OVERLAP_BENEATH };

/* A sandbox that holds a path which was to be reserved. */
struct sandbox_conflict {
    char id[SANDBOX_ID_MAX];
    char *owner_id, *creator; /* owned */
    char *path, *wanted;      /* owned: what it holds, and what of ours meets that */
    enum sandbox_overlap overlap;
    enum sandbox_state state;
};

struct sandbox_conflicts {
    struct sandbox_conflict *items; /* owned */
    size_t count, cap;
};

void sandbox_conflicts_done(struct sandbox_conflicts *conflicts);

/* What an insertion, or a sandbox that comes back, is held to; and who is in the way. */
struct sandbox_admission {
    unsigned max_per_owner;             /* on all hosts together; 0: any number */
    unsigned max_over_directories;      /* of this host */
    bool is_there;                      /* it exists, and the row only says so: neither number nor paths are checked */
    struct sandbox_conflicts conflicts; /* after -EBUSY; to be done with */
};

/*
 * Sets row_version to 1. Two that are inserted at once cannot both be the last that there is room for. `room` may be NULL: any number.
 * ERR_NOT_FOUND: its codebase is not there. ERR_ALREADY_EXISTS: the id, or the name (NAME_TAKEN). ERR_RESOURCE_EXHAUSTED (-EDQUOT,
 * TOO_MANY_SANDBOXES). ERR_FAILED_PRECONDITION (-EBUSY, SCOPE_CONFLICT).
 */
int sandbox_row_insert(struct store *store, struct sandbox_row *row, struct sandbox_admission *room, struct err *err);

/* Whether other sandboxes hold the row's reserved paths, one above or one beneath now; nothing is inserted. Uses id, host_id and
 * reserved_paths of the row. ERR_FAILED_PRECONDITION (-EBUSY, SCOPE_CONFLICT) with the conflicts in `room`. */
int sandbox_row_check_paths(struct store *store, const struct sandbox_row *row, struct sandbox_admission *room, struct err *err);

/* Whether it holds the paths that it reserved, if it reserved any. */
bool sandbox_row_holds(const struct sandbox_row *row);

/* ---- finding ---- */

int sandbox_row_get(struct store *store, const char *id, struct sandbox_row *ret, struct err *err);

/*
 * By what people call it: its name, else its id or a beginning of it that no other has, with or without prefix, or as a UUID. `owner_id`
 * NULL: anybody's. Deleted ones only where no other is meant. ERR_NOT_FOUND; ERR_INVALID_ARGUMENT, with up to eight ids, when several are.
 */
int sandbox_row_find(struct store *store, const char *owner_id, const char *text, struct sandbox_row *ret, struct err *err);

enum sandbox_base { SANDBOX_BASE_ANY, SANDBOX_BASE_CODEBASE, SANDBOX_BASE_DIRECTORY };

/* What is NULL or 0 does not restrict. */
struct sandbox_filter {
    const char *owner_id, *host_id, *codebase_id;
    const char *name, *creator, *project_root, *scope_path; /* exact */
    enum sandbox_base base;
    unsigned statuses;       /* bits */
    unsigned states;         /* bits */
    unsigned decisions;      /* bits */
    const char *const *tags; /* it has all of them; at most 8 */
    size_t tag_count;
    const struct label_list *labels; /* it has all of them; at most 8 */
    int64_t expires_until_ns;        /* it has an end, and that is not later */
};

/* The oldest first, by pages. */
int sandbox_row_list(struct store *store, const struct sandbox_filter *filter, const struct store_page *page,
                     struct sandbox_rows *ret, struct err *err);
/* By number, the newest first. `ret_total` may be NULL: how many there are without `limit` and `offset`. */
int sandbox_row_list_window(struct store *store, const struct sandbox_filter *filter, size_t limit, size_t offset,
                            struct sandbox_rows *ret, int64_t *ret_total, struct err *err);
int sandbox_row_count(struct store *store, const struct sandbox_filter *filter, int64_t *ret, struct err *err);

struct sandbox_count {
    int64_t count, size_bytes;
};

int sandbox_row_count_states(struct store *store, const struct sandbox_filter *filter,
                             struct sandbox_count ret[SANDBOX_STATE_COUNT], struct err *err);

/* ---- changing ---- */

/* One step, on one axis or both. */
struct sandbox_move {
    const char *id;
    unsigned from;        /* bits: the statuses that it may have now; 0: any that leads there */
    unsigned from_states; /* the same by states; 0: any */
    int64_t row_version;  /* and this version, unless 0 */
    enum sandbox_status to;
    bool decides; /* it has this decision then, instead of the one it has: */
    enum sandbox_decision decision;
    const char *reason; /* NULL: "" */
    bool forgets_key;   /* the idempotency key that it was asked for with is free again */
    bool forgets_name;  /* its name is */
    int64_t now_ns;
    struct sandbox_admission
        *room; /* of one that comes back from where it holds nothing; NULL: any number, and nobody asks who is in the way */
};

/*
 * `ret`, if not NULL, is the row as it is then. ERR_NOT_FOUND, also for STARTING when its codebase is gone. -ESTALE:
 * ERR_FAILED_PRECONDITION (INVALID_STATE) when it is not as `from` says or there is no such move, ERR_ABORTED (VERSION_MISMATCH) when the
 * version is another. A sandbox that comes back may also meet what an insertion may.
 */
int sandbox_row_move(struct store *store, const struct sandbox_move *move, struct sandbox_row *ret, struct err *err);

/* Writes what its directory knows (name, owner, base, rules, preset, runtime, driver, image, limits, network, sync_on_completion), and labels,
 * tags, metadata, behavior, base_commit, extra, updated_ns and expires_ns, if the row is still of row->row_version; counts that up. ERR_ABORTED (-ESTALE, VERSION_MISMATCH) if it is not: get it again. */
int sandbox_row_update(struct store *store, struct sandbox_row *row, struct err *err);

/* It was used now, unless that was noted less than a second ago. Not counted as a change. */
int sandbox_row_touch(struct store *store, const char *id, int64_t now_ns, struct err *err);
/* How large its changes are. Not counted as a change either. */
int sandbox_row_measure(struct store *store, const char *id, int64_t size_bytes, int64_t file_count, struct err *err);

/* With its sessions. */
int sandbox_row_delete(struct store *store, const char *id, struct err *err);
