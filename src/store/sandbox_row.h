/*
 * A sandbox's row: its base, its options and its intended state. Its supervisor knows the actual state.
 *
 * There are two axes. The first is its life (`status`):
 *
 *     CREATING ─┬▶ PENDING ──▶ STARTING ──▶ RUNNING ──▶ STOPPING ──▶ STOPPED ──▶ STARTING ...
 *               └▶ RUNNING                  each of them ──▶ ERROR, DELETING;  at rest ──▶ DELETED ──▶ STOPPED
 *
 * The second is the decision about its changes (`decision`): open, approved or rejected. A decided sandbox is at rest; starting
 * or restoring it opens the decision again. Only sandbox_row_move() changes either axis, along the moves listed in
 * sandbox_move.c. Every change increases row_version.
 *
 * A sandbox over a directory may reserve paths of the host. No other sandbox of the host may then reserve the same path, one
 * above or one beneath it. It holds its paths while its decision is open and it is not deleted, also while it is stopped. A sandbox
 * whose creation failed holds nothing. The check and the insertion are one transaction.
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

/* Stored in the database: never renumber. The first four have the API's numbers; the API shows the others as one of them. */
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

/* Stored in the database. */
enum sandbox_decision {
    SANDBOX_DECISION_OPEN = 0,
    SANDBOX_DECISION_APPROVED = 1,
    SANDBOX_DECISION_REJECTED = 2,
};

/* Both axes in one word, for reviewers and /api/v1. Computed, never stored. */
enum sandbox_state {
    SANDBOX_STATE_NONE,
    SANDBOX_STATE_CREATING,
    SANDBOX_STATE_ACTIVE,  /* starting, running, stopping */
    SANDBOX_STATE_STOPPED, /* at rest for any reason; it can be started */
    SANDBOX_STATE_APPROVED,
    SANDBOX_STATE_REJECTED,
    SANDBOX_STATE_DELETED,
    SANDBOX_STATE_ERROR, /* creation failed; only the row exists */
    SANDBOX_STATE_COUNT,
};

#define SANDBOX_STATE_BIT(state) (1u << (state))
#define SANDBOX_STATE_ANY (((1u << SANDBOX_STATE_COUNT) - 1) & ~1u)

const char *sandbox_state_name(enum sandbox_state state); /* "active" */
bool sandbox_state_parse(const char *name, enum sandbox_state *ret);

/* All texts and bytes owned. */
struct sandbox_row {
    char *id;
    char *name; /* "" for none; unique among its owner's sandboxes */
    char *owner_id;
    char *host_id;
    char *codebase_id;     /* "" if it is over a directory */
    char *scope_path;      /* that directory; "" if it is over a codebase */
    char *project_root;    /* if over a directory: the project that contains the directory */
    char **reserved_paths; /* ended by NULL; clean and absolute */
    bool no_lock;          /* it reserves no paths */
    int status;            /* enum sandbox_status */
    int decision;          /* enum sandbox_decision */
    char *reason;          /* the last failure */
    bool restarts;         /* the server restarts it if it ended while no server ran */
    char *creator;         /* for whom its owner made it, in the owner's words; shown to the owner */
    char *creator_type;
    struct buf rules;
    char *preset; /* the preset it was made with */
    struct label_list labels;
    char *tags, *metadata, *behavior; /* JSON */
    int runtime;                      /* numbered as in the API */
    char *driver;
    char *image;
    int64_t memory_bytes; /* limits: 0 for none */
    int64_t cpu_quota;
    int64_t cpu_shares;
    int64_t pids_limit;
    int64_t disk_bytes;
    char *network;
    bool sync_on_completion;
    char *base_commit;
    char *idempotency_key;          /* the key of its creation, only for display: the claim in idempotency_row.h decides */
    struct buf extra;               /* other data of the modules above */
    int64_t size_bytes, file_count; /* of its changes, as last measured */
    int64_t created_ns;             /* times: 0 is never */
    int64_t started_ns;
    int64_t used_ns;
    int64_t updated_ns;
    int64_t stopped_ns;
    int64_t approved_ns;
    int64_t closed_ns;  /* approved or rejected */
    int64_t deleted_ns; /* after this it has no files, or has them in the trash */
    int64_t expires_ns;
    int64_t row_version;
};

struct sandbox_rows {
    struct sandbox_row *rows; /* owned */
    size_t count;
    char *next_token; /* owned; NULL on the last page */
};

void sandbox_row_done(struct sandbox_row *row);
void sandbox_rows_done(struct sandbox_rows *rows);

static inline bool sandbox_row_is_over_directory(const struct sandbox_row *row)
{
    return !*row->codebase_id;
}

enum sandbox_state sandbox_row_state(const struct sandbox_row *row);

/* ---- inserting (sandbox_insert.c) ---- */

/* The position of another sandbox's path relative to ours. */
enum sandbox_overlap { SANDBOX_OVERLAP_EXACT, SANDBOX_OVERLAP_ABOVE, SANDBOX_OVERLAP_BENEATH };

/* A sandbox that holds a path which the new one would reserve. */
struct sandbox_conflict {
    char id[SANDBOX_ID_MAX];
    char *owner_id, *creator; /* owned */
    char *path, *wanted;      /* owned: the path that it holds, and our path that overlaps with it */
    enum sandbox_overlap overlap;
    enum sandbox_state state;
};

struct sandbox_conflicts {
    struct sandbox_conflict *items; /* owned */
    size_t count, cap;
};

void sandbox_conflicts_done(struct sandbox_conflicts *conflicts);

/* The conditions for inserting or restoring a sandbox, and the conflicts found. */
struct sandbox_admission {
    unsigned max_per_owner;             /* on all hosts; 0: unlimited */
    unsigned max_over_directories;      /* on this host */
    bool is_there;                      /* the sandbox exists and only its row is missing: do not check numbers and paths */
    struct sandbox_conflicts conflicts; /* after -EBUSY; call sandbox_conflicts_done() */
};

/*
 * Sets row_version to 1. Concurrent insertions cannot exceed the limits. `room` may be NULL: no limits. ERR_NOT_FOUND: its
 * codebase does not exist. ERR_ALREADY_EXISTS: the id, or the name (NAME_TAKEN). ERR_RESOURCE_EXHAUSTED (-EDQUOT,
 * TOO_MANY_SANDBOXES). ERR_FAILED_PRECONDITION (-EBUSY, SCOPE_CONFLICT).
 */
int sandbox_row_insert(struct store *store, struct sandbox_row *row, struct sandbox_admission *room, struct err *err);

/* Checks whether other sandboxes now hold the row's reserved paths, or paths above or beneath them, without inserting. Uses id,
 * host_id and reserved_paths of the row. ERR_FAILED_PRECONDITION (-EBUSY, SCOPE_CONFLICT) with the conflicts in `room`. */
int sandbox_row_check_paths(struct store *store, const struct sandbox_row *row, struct sandbox_admission *room,
                            struct err *err);

/* Whether it holds reserved paths now. */
bool sandbox_row_holds(const struct sandbox_row *row);

/* ---- finding ---- */

int sandbox_row_get(struct store *store, const char *id, struct sandbox_row *ret, struct err *err);

/*
 * Finds a sandbox by its name, else by its id or a unique beginning of it, with or without prefix, or as a UUID. `owner_id`
 * NULL: of any owner. Considers deleted sandboxes only if no other matches. ERR_NOT_FOUND; ERR_INVALID_ARGUMENT with up to
 * eight ids if several match.
 */
int sandbox_row_find(struct store *store, const char *owner_id, const char *text, struct sandbox_row *ret, struct err *err);

enum sandbox_base { SANDBOX_BASE_ANY, SANDBOX_BASE_CODEBASE, SANDBOX_BASE_DIRECTORY };

/* NULL or 0 does not restrict. */
struct sandbox_filter {
    const char *owner_id, *host_id, *codebase_id;
    const char *name, *creator, *project_root, *scope_path; /* exact match */
    enum sandbox_base base;
    unsigned statuses;       /* bits */
    unsigned states;         /* bits */
    unsigned decisions;      /* bits */
    const char *const *tags; /* it has all of them; at most 8 */
    size_t tag_count;
    const struct label_list *labels; /* it has all of them; at most 8 */
    int64_t expires_until_ns;        /* it expires, at this time at the latest */
};

/* Oldest first, by page tokens. */
int sandbox_row_list(struct store *store, const struct sandbox_filter *filter, const struct store_page *page,
                     struct sandbox_rows *ret, struct err *err);
/* Newest first, by limit and offset. `ret_total` may be NULL; it ignores `limit` and `offset`. */
int sandbox_row_list_window(struct store *store, const struct sandbox_filter *filter, size_t limit, size_t offset,
                            struct sandbox_rows *ret, int64_t *ret_total, struct err *err);
int sandbox_row_count(struct store *store, const struct sandbox_filter *filter, int64_t *ret, struct err *err);

struct sandbox_count {
    int64_t count, size_bytes;
};

int sandbox_row_count_states(struct store *store, const struct sandbox_filter *filter,
                             struct sandbox_count ret[SANDBOX_STATE_COUNT], struct err *err);

/* ---- changing ---- */

/* One move, on one axis or both. */
struct sandbox_move {
    const char *id;
    unsigned from;        /* bits: the allowed current statuses; 0: all that can move to `to` */
    unsigned from_states; /* bits: the allowed current states; 0: any */
    int64_t row_version;  /* the expected version; 0: any */
    enum sandbox_status to;
    bool decides; /* whether to change the decision, to this: */
    enum sandbox_decision decision;
    const char *reason; /* NULL: "" */
    bool forgets_key;   /* frees the idempotency key of its creation */
    bool forgets_name;  /* frees its name */
    int64_t now_ns;
    struct sandbox_admission *room; /* if the move makes it hold its paths again; NULL: no limits, conflicts are not reported */
};

/*
 * `ret`, if not NULL, is the row after the move. ERR_NOT_FOUND, for STARTING also if its codebase does not exist. -ESTALE:
 * ERR_FAILED_PRECONDITION (INVALID_STATE) if the current state does not match `from` or there is no such move, ERR_ABORTED
 * (VERSION_MISMATCH) if the version differs. A restored sandbox can also fail like an insertion.
 */
int sandbox_row_move(struct store *store, const struct sandbox_move *move, struct sandbox_row *ret, struct err *err);

/* Stores the fields that its directory has, too (name, owner, base, rules, preset, runtime, driver, image, limits, network,
 * sync_on_completion), and labels, tags, metadata, behavior, base_commit, extra, updated_ns and expires_ns, if the stored
 * version is row->row_version; then increases that. Otherwise ERR_ABORTED (-ESTALE, VERSION_MISMATCH): get the row again. */
int sandbox_row_update(struct store *store, struct sandbox_row *row, struct err *err);

/* Records its last use, at most once a second. Does not increase row_version. */
int sandbox_row_touch(struct store *store, const char *id, int64_t now_ns, struct err *err);
/* Records the size of its changes. Does not increase row_version. */
int sandbox_row_measure(struct store *store, const char *id, int64_t size_bytes, int64_t file_count, struct err *err);

/* Deletes its sessions, too. */
int sandbox_row_delete(struct store *store, const char *id, struct err *err);
