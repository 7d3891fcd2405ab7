/*
 * A transaction: changes that become one version, all or none.
 *
 * For a sync, what is taken from a delta is named by a directory and a name in it. The file is not moved before the commit: it gets a
 * second name in the stage (or is copied, on another file system), and loses its first when the version is made. So a transaction
 * that is given up, fails or is killed leaves the delta as it was; one that was committed and killed takes the files
 * out of the delta when the codebase is settled. The caller sees to it that nobody writes to these files meanwhile, and that
 * the codebase is settled before a delta is used again.
 *
 * Each change says when it was made, by the changer's clock (ns since 1970), and what the changer saw at the path before. If that is
 * not what is there now, somebody else has changed it: then the later change wins. What loses is kept in the version
 * (codebase_version.h), and both cases are told as conflicts. Removing a directory removes it only if it is empty then, so what
 * the changer could not see survives.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "codebase/codebase.h"

/* What was at a path when the changer first changed it. */
enum codebase_seen_kind { CODEBASE_SEEN_UNKNOWN, CODEBASE_SEEN_ABSENT, CODEBASE_SEEN_FILE };

struct codebase_seen {
    enum codebase_seen_kind kind;
    uint64_t ino, size_bytes;
    int64_t mtime_ns;
};

#define CODEBASE_UNSEEN ((struct codebase_seen){ .kind = CODEBASE_SEEN_UNKNOWN })
#define CODEBASE_WAS_ABSENT ((struct codebase_seen){ .kind = CODEBASE_SEEN_ABSENT })

struct codebase_seen codebase_seen_of_stat(const struct stat *st);

struct codebase_change {
    const char *path;
    int64_t when_ns;
    struct codebase_seen seen;
};

struct codebase_txn;

/* `by` (who, or which exec) and `reason` are for those who read the list of versions; they may be NULL. */
int codebase_txn_begin(struct codebase *cb, const char *by, const char *reason, struct codebase_txn **ret, struct err *err);

/* The same for whoever decided about exactly what they saw: if something is not as its change saw it, nobody wins, and the commit fails with -ESTALE
 * and ERR_ABORTED. A directory that is not empty, and is to become a file, is such a thing; one that is to be removed stays. */
int codebase_txn_begin_exact(struct codebase *cb, const char *by, const char *reason, struct codebase_txn **ret,
                             struct err *err);
void codebase_txn_free(struct codebase_txn *txn); /* gives up what was not committed */
DEFINE_AUTOPTR(codebase_txn, codebase_txn_free);

/* A regular file or a symlink. Anything else is -EINVAL. */
int codebase_txn_put(struct codebase_txn *txn, const struct codebase_change *change, int source_dirfd, const char *source_name,
                     struct err *err);
int codebase_txn_symlink(struct codebase_txn *txn, const struct codebase_change *change, const char *target, struct err *err);
int codebase_txn_mkdir(struct codebase_txn *txn, const struct codebase_change *change, mode_t mode, struct err *err);
int codebase_txn_remove(struct codebase_txn *txn, const struct codebase_change *change, struct err *err);

struct codebase_conflict {
    char *path;    /* owned */
    bool has_lost; /* this transaction's change did; otherwise what it replaced */
    int64_t when_ns, other_ns;
};

struct codebase_changed {
    char *path; /* owned */
    bool is_removed;
    bool is_tree; /* a directory that came or went with all beneath it */
};

struct codebase_commit {
    uint64_t version;                /* the new one; the current one when there was nothing to change */
    uint64_t size_bytes, file_count; /* of the codebase at that version */
    struct codebase_changed *changes;
    size_t change_count, change_cap;
    struct codebase_conflict *conflicts;
    size_t conflict_count, conflict_cap;
};

#define CODEBASE_COMMIT_NONE ((struct codebase_commit){ 0 })

/* After a failure nothing is changed and the transaction can only be freed. */
int codebase_txn_commit(struct codebase_txn *txn, struct codebase_commit *ret, struct err *err);
void codebase_commit_done(struct codebase_commit *commit);
