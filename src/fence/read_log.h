/*
 * <delta>/meta/served: for a live base, the state of each file when its content was last read through us. If the base has
 * changed when the file is covered, its writer had read another version: that is a conflict and cannot be merged.
 *
 * It is kept by path and on disk: editors replace a project's files by others of the same name more often than they write them,
 * and what an agent has read remains read when the kernel has forgotten the file or the sandbox was stopped.
 */
#pragma once

#include "fence/fence_int.h"

struct read_log;

int read_log_open(struct fence *f, struct read_log **ret);
void read_log_close(struct read_log *read_log);

/* Records that content of the base file is read. Without f->read_log these functions do nothing. */
void read_log_note(struct fence *f, struct inode *inode, struct handle *from);

/* Returns true if the base file is not the one that was last read; false if none was read. */
bool read_log_base_moved_on(struct fence *f, struct inode *inode, const struct stat *base);

/* Call before the path leaves the delta. If delta and base have the same content, the agent knows it: it wrote it. */
void read_log_before_revert(struct fence *f, const char *path);

/* The same for a delta at rest. */
void read_log_before_revert_at_rest(int meta_fd, int data_fd, int base_fd, const char *path);
