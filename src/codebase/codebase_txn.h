/*
 * A transaction: a set of changes that become one version, all or none.
 *
 * A sync names each file of the delta by a directory and a name in it. The file does not move before the commit. The stage gets
 * a second link to it (or a copy, on another file system), and its name in the delta goes when the version is made. So a
 * transaction that is freed, fails or is killed leaves the delta unchanged. If it is killed after the commit, settling the
 * codebase removes the files from the delta. The caller must make sure that no program writes to these files meanwhile, and
 * must settle the codebase before it uses the delta again.
 *
 * Each change has a time, by the clock of its author (ns since 1970), and the state of the path that its author saw. If the
 * path has another state now, another author changed it: the later change wins. The version keeps the losing content
 * (codebase_version.h), and both cases are reported as conflicts. Removing a directory succeeds only if it is empty by then, so
 * files that the author could not see survive.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "codebase/codebase.h"

/* The state of a path before its author first changed it. */
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

/* `by` (a person or an exec) and `reason` appear in the list of versions; they may be NULL. */
int codebase_txn_begin(struct codebase *cb, const char *by, const char *reason, struct codebase_txn **ret, struct err *err);

/* For an author who decided about exactly the state they saw: if a path differs from it, no side wins and the commit fails with
 * -ESTALE and ERR_ABORTED. This includes a directory that should become a file but is not empty. A directory that should be
 * removed but is not empty stays. */
int codebase_txn_begin_exact(struct codebase *cb, const char *by, const char *reason, struct codebase_txn **ret,
                             struct err *err);
void codebase_txn_free(struct codebase_txn *txn); /* discards a transaction that was not committed */
DEFINE_AUTOPTR(codebase_txn, codebase_txn_free);

/* Puts a regular file or a symlink; -EINVAL for anything else. */
int codebase_txn_put(struct codebase_txn *txn, const struct codebase_change *change, int source_dirfd, const char *source_name,
                     struct err *err);
int codebase_txn_symlink(struct codebase_txn *txn, const struct codebase_change *change, const char *target, struct err *err);
int codebase_txn_mkdir(struct codebase_txn *txn, const struct codebase_change *change, mode_t mode, struct err *err);
int codebase_txn_remove(struct codebase_txn *txn, const struct codebase_change *change, struct err *err);

struct codebase_conflict {
    char *path;    /* owned */
    bool has_lost; /* this transaction's change lost; otherwise the content it replaced did */
    int64_t when_ns, other_ns;
};

struct codebase_changed {
    char *path; /* owned */
    bool is_removed;
    bool is_tree; /* a directory that was added or removed with everything beneath */
};

struct codebase_commit {
    uint64_t version;                /* the new version, or the current one if nothing changed */
    uint64_t size_bytes, file_count; /* of the codebase in that version */
    struct codebase_changed *changes;
    size_t change_count, change_cap;
    struct codebase_conflict *conflicts;
    size_t conflict_count, conflict_cap;
};

#define CODEBASE_COMMIT_NONE ((struct codebase_commit){ 0 })

/* After a failure nothing has changed and the transaction can only be freed. */
int codebase_txn_commit(struct codebase_txn *txn, struct codebase_commit *ret, struct err *err);
void codebase_commit_done(struct codebase_commit *commit);
