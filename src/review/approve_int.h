/* What the files of approve and undo share. */
#pragma once

#include "review/approve.h"

/* What is to be done for one edit. */
struct planned {
    bool is_taken;   /* it gets notes */
    bool has_change; /* something is written */
    size_t change;   /* its index in the landing */
    mode_t now;      /* as in struct apply_txn_change */
    bool is_mode_only;
    struct stat was;
    bool has_bytes; /* `bytes` are written, not what the delta has */
    struct buf bytes;
    uint8_t hash[FILE_STATE_HASH_BYTES]; /* of what is written; for files */
    struct base_entry merge_base;        /* from now on; borrows its path, owns `kept` */
    struct buf merge_base_bytes;         /* to be kept as the ground, if `keeps_merge_base` */
    bool keeps_merge_base;
    struct base_entry before; /* the ground until now; borrows all */
};

/* Reconciles the edit and says what to do. Fills `file` and, unless it is refused, `ret`. */
int planned_make(const struct edit_list *list, const struct edit *edit, const struct decision *decision,
                 const struct approve_options *options, struct approve_file *file, struct planned *ret, struct err *err);
void planned_done(struct planned *planned);

/* Of all that is written, with paths, modes and contents: what has the same digest is the same change. */
void planned_digest(const struct edit_list *edits, const struct planned *planned, uint8_t ret[FILE_STATE_HASH_BYTES]);

/* What must not move while we look at it and then write. */
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

/* Takes them, and then finishes what was cut short. -EBUSY: somebody else had them for `wait_ms`. */
int approve_locks_acquire(const char *delta_path, const struct approve_lock_options *options, struct approve_locks *ret,
                          struct err *err);
void approve_locks_done(struct approve_locks *locks);

/* Where something lands under these locks; its notes go to the diary. Borrows from `locks`. */
struct apply_txn_site approve_txn_site(struct approve_locks *locks);
