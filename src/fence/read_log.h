/*
 * <delta>/meta/served: of a live base, what each file was when content of it was last given out. If the base has moved on when the file is
 * covered, whoever wrote it had another version before its eyes: that is a conflict, and no ground to merge on.
 *
 * Kept by path, and on disk: a project's files are replaced by others of their name more often than written, and what an agent has read it
 * still has read when the kernel has forgotten the file, or the sandbox was stopped.
 */
#pragma once

#include "fence/fence_int.h"

struct read_log;

int read_log_open(struct fence *f, struct read_log **ret);
void read_log_close(struct read_log *read_log);

/* Content of the base's file, which is this, is given out. Without f->read_log, as all of these: nothing happens. */
void read_log_note(struct fence *f, struct inode *inode, struct handle *from);

/* Whether the base's file is another than the one that was given out last. One of which nothing was is not. */
bool read_log_base_moved_on(struct fence *f, struct inode *inode, const struct stat *base);

/* The path is about to leave the delta. If what the delta has there is what the base has, the agent knows it: it wrote it. */
void read_log_before_revert(struct fence *f, const char *path);

/* The same for a delta at rest. */
void read_log_before_revert_at_rest(int meta_fd, int data_fd, int base_fd, const char *path);
