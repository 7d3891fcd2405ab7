/*
 * Brings the tree in memory up to date after the base changed, and collects what the kernel must drop.
 *
 * All functions need the gate held and no other lock. A change of a hidden name does not exist for the sandbox and has no
 * effect, not even on a directory's time. Paths that the delta covers are not affected by changes below them.
 */
#pragma once

#include "fence/invalidate.h"

/* Another file, or none, or one for the first time has this name now. The inode that had it loses it. */
void revalidate_name(struct fence *f, struct inode *dir, const char *name, struct inval_batch *batch);

/* Something changed in a hidden directory, "a/b/c": finds out whether it leads to anything visible now. */
void revalidate_hidden(struct fence *f, const char *path, struct inval_batch *batch);

/* The same as revalidate_name() for a path, "a/b/c", but a file that is the same and a directory that still exists keep their
 * inodes; everything below is compared. "" is the root. */
void revalidate_path(struct fence *f, const char *path, struct inval_batch *batch);

/* Parts of the above, for callers that know what happened. */
enum visibility {
    VISIBILITY_NONE,  /* no change of the name is visible */
    VISIBILITY_BELOW, /* hidden, but something visible may lie below it */
    VISIBILITY_FULL,
};

enum visibility revalidate_visibility(struct fence *f, struct inode *dir, const char *name);
bool revalidate_is_shown(const struct fence *f, const struct inode *inode);

/* Detaches the name from its inode, which keeps its content for processes that have it open. With `inode` not NULL, only if the
 * name still belongs to it: another worker may have detached it. */
void revalidate_detach(struct fence *f, struct inode *dir, const char *name, const struct inode *inode);

/* The base's part of a directory that the delta has too may have been replaced, removed or created. */
void revalidate_merged(struct fence *f, struct inode *dir, struct inode *child, const char *name);

/* Records a visible change in the directory. */
void revalidate_touch(struct fence *f, struct inode *dir);
