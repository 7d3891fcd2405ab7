/*
 * What one approval changed in one file, as a commit needs it: the file before and the file after. With that a commit can take up what was
 * approved and leave what others have in the same file.
 *
 * Kept in a directory of its own, a file each, and not synced: what is not whole any more counts as lost. It outlives the sandbox, because
 * what was approved can be committed later.
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
    char blob[CONTRIBUTION_BLOB_MAX]; /* of one too large to be merged, instead: git's name for its content */
};

struct contribution {
    char *path; /* owned; from the project's root, any bytes */
    struct contribution_side before, after;
};

#define CONTRIBUTION_NONE ((struct contribution){ .path = NULL })

void contribution_done(struct contribution *contribution);

/* What it held is the receiver's. */
static inline struct contribution contribution_steal(struct contribution *contribution)
{
    struct contribution stolen = *contribution;

    *contribution = CONTRIBUTION_NONE;
    return stolen;
}

int contribution_keep(int dir_fd, const char *name, const struct contribution *contribution);
/* -ENOENT, -EBADMSG: there is none, or not all of it. */
int contribution_load(int dir_fd, const char *name, struct contribution *ret);
/* Removes those that were kept longer ago. */
int contribution_sweep(int dir_fd, int64_t before_ns, struct err *err);

/* What would be changed at a path of the project: `now` is the mode it would have, 0 for nothing; `bytes` its content, NULL: what `source_fd` has
 * there. `ret->path` is left to the caller. */
int contribution_predict(int project_fd, const char *path, mode_t now, int source_fd, const struct buf *bytes,
                         struct contribution *ret);

/* ---- from the record of a landing (apply_txn.h), as long as the project has what landed ---- */

struct contribution_source;

/* `approval_id` may be that of no record: then nothing was written. */
int contribution_source_open(const char *delta_path, const char *approval_id, struct contribution_source **ret,
                             struct err *err);
void contribution_source_close(struct contribution_source *source);
DEFINE_AUTOPTR(contribution_source, contribution_source_close);

/* `path` from the delta's base; `ret->path` is left to the caller. A path that the landing did not write is the same before and after. -ESTALE:
 * somebody has changed it since. */
int contribution_source_read(const struct contribution_source *source, const char *path, struct contribution *ret);
