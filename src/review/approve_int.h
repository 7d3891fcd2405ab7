/* Shared by the files of approve and undo. */
#pragma once

#include "review/approve.h"

/* The plan for one edit. */
struct planned {
    bool is_taken;   /* it gets notes in the change log */
    bool has_change; /* something is written */
    size_t change;   /* its index in the transaction */
    mode_t now;      /* as in struct apply_txn_change */
    bool is_mode_only;
    struct stat was;
    bool has_bytes; /* `bytes` are written, not the delta's file */
    struct buf bytes;
    uint8_t hash[FILE_STATE_HASH_BYTES]; /* of the bytes that are written; for files */
    struct base_entry merge_base;        /* the new merge base; borrows its path, owns `kept` */
    struct buf merge_base_bytes;         /* kept as the merge base if `keeps_merge_base` */
    bool keeps_merge_base;
    struct base_entry before; /* the old merge base; borrows all */
};

/* Reconciles the edit and makes its plan. Fills `file` and, unless the edit is refused, `ret`. */
int planned_make(const struct edit_list *list, const struct edit *edit, const struct decision *decision,
                 const struct approve_options *options, struct approve_file *file, struct planned *ret, struct err *err);
void planned_done(struct planned *planned);

/* A digest of all that is written, with paths, modes and contents: equal digests mean the same change. */
void planned_digest(const struct edit_list *edits, const struct planned *planned, uint8_t ret[FILE_STATE_HASH_BYTES]);

/* Locks of what must not change between reading and writing. */
struct approve_locks {
    struct delta_info delta;
    int delta_fd, base_fd, records_fd;         /* owned */
    const struct apply_txn_codebase *codebase; /* borrowed */
};

#define APPROVE_LOCKS_NONE ((struct approve_locks){ DELTA_INFO_NONE, -1, -1, -1, NULL })

struct approve_lock_options {
    bool is_held;     /* as in struct approve_options */
    unsigned wait_ms; /* likewise */
    const struct apply_txn_codebase *codebase;
};

/* Takes the locks, then finishes an interrupted transaction. -EBUSY: somebody else had them for `wait_ms`. */
int approve_locks_acquire(const char *delta_path, const struct approve_lock_options *options, struct approve_locks *ret,
                          struct err *err);
void approve_locks_done(struct approve_locks *locks);

/* The site of a transaction under these locks; its notes go to the change log. Borrows from `locks`. */
struct apply_txn_site approve_txn_site(struct approve_locks *locks);
