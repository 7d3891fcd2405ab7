/*
 * One approval's change in one file, as a commit needs it: the file before and after. With it a commit can include the
 * approved change and leave out what others changed in the same file.
 *
 * Kept in a separate directory, one file each, not synced: an incomplete one counts as lost. It outlives the sandbox, because
 * approved changes can be committed later.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

#define CONTRIBUTION_BLOB_MAX 41

struct contribution_side {
    mode_t mode; /* kind and permission bits; 0: no file */
    bool has_bytes;
    struct buf bytes;                 /* a file's content or a link's target */
    char blob[CONTRIBUTION_BLOB_MAX]; /* instead of `bytes`, for a file too large to be merged: its git object id */
};

struct contribution {
    char *path; /* owned; from the project's root, any bytes */
    struct contribution_side before, after;
};

#define CONTRIBUTION_NONE ((struct contribution){ .path = NULL })

void contribution_done(struct contribution *contribution);

/* Moves the content to the result. */
static inline struct contribution contribution_steal(struct contribution *contribution)
{
    struct contribution stolen = *contribution;

    *contribution = CONTRIBUTION_NONE;
    return stolen;
}

int contribution_keep(int dir_fd, const char *name, const struct contribution *contribution);
/* -ENOENT: there is none; -EBADMSG: it is incomplete. */
int contribution_load(int dir_fd, const char *name, struct contribution *ret);
/* Removes the contributions that are older. */
int contribution_sweep(int dir_fd, int64_t before_ns, struct err *err);

/* Predicts the change at a path of the project: `now` is the new mode, 0 for nothing; `bytes` the new content, NULL: that
 * in `source_fd`. The caller sets `ret->path`. */
int contribution_predict(int project_fd, const char *path, mode_t now, int source_fd, const struct buf *bytes,
                         struct contribution *ret);

/* ---- from the record of a transaction (apply_txn.h), as long as the project still has its result ---- */

struct contribution_source;

/* An `approval_id` without a record means that nothing was written. */
int contribution_source_open(const char *delta_path, const char *approval_id, struct contribution_source **ret,
                             struct err *err);
void contribution_source_close(struct contribution_source *source);
DEFINE_AUTOPTR(contribution_source, contribution_source_close);

/* `path` starts at the delta's base; the caller sets `ret->path`. A path that the transaction did not write is the same
 * before and after. -ESTALE: somebody has changed it since. */
int contribution_source_read(const struct contribution_source *source, const char *path, struct contribution *ret);
