/*
 * The base changed behind our back: the tree in memory is brought up to date, and what the kernel has to hear is collected.
 *
 * All of it with the gate held and no other lock. A change of a hidden name is none for the sandbox and has no effect, not even on
 * a directory's time. Paths the delta covers are not affected by what happens below them.
 */
#pragma once

#include "fence/inval_batch.h"

/* Under this name is another thing now, or none, or one for the first time. What had it loses it. */
void revalidate_name(struct fence *f, struct inode *dir, const char *name, struct inval_batch *batch);

/* Something happened in a hidden directory, "a/b/c": does it lead to anything visible now? */
void revalidate_hidden(struct fence *f, const char *path, struct inval_batch *batch);

/* The same as revalidate_name() for a path, "a/b/c", but what is the same file, or a directory still, stays; all below is looked at. An
 * empty one is the root. */
void revalidate_path(struct fence *f, const char *path, struct inval_batch *batch);

/* Parts of the above, for who knows what happened. */
enum visibility {
    VISIBILITY_NONE,  /* nothing that happens to the name is to be seen */
    VISIBILITY_BELOW, /* hidden, but something visible may lie below it */
    VISIBILITY_FULL,
};

enum visibility revalidate_visibility(struct fence *f, struct inode *dir, const char *name);
bool revalidate_is_shown(const struct fence *f, const struct inode *inode);

/* The inode that had the name keeps its content for whoever has it open; the name is free for what is there now. Only if it is
 * `inode`, unless that is NULL: another worker may have been here. */
void revalidate_detach(struct fence *f, struct inode *dir, const char *name, const struct inode *inode);

/* The base's part of a directory that the delta has too may be another, gone, or new. */
void revalidate_merged(struct fence *f, struct inode *dir, struct inode *child, const char *name);

/* A visible change in the directory. */
void revalidate_touch(struct fence *f, struct inode *dir);
