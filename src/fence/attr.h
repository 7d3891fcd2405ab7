/*
 * What stat(2) shows: the backing file's size and times, a mode that reflects the level, and nothing that reveals hidden files.
 */
#pragma once

#include "fence/fence_int.h"

#define ATTR_BLOCK 4096
#define TIMEOUT_HIDDEN_S 1.0 /* for hidden names, existing or not: short, so that attempts are seen */

/* `backing` may be NULL for a directory. */
void attr_fill(struct fence *f, struct inode *inode, const struct stat *backing, struct stat *ret_st);

/* The same, with a stat of the backing file. */
int attr_get(struct fence *f, struct inode *inode, struct stat *ret_st);

/* Records a visible change in the directory: its times move to those of the delta's directory, its listing is outdated. [dir
 * stripe held or not] */
void attr_touch_dir(struct fence *f, struct inode *dir, int delta_fd);

/* Records a change of mode, attributes or name, which is no change of the entries: only ctime moves. It is kept in memory until
 * the next mount, where it begins as mtime: the delta's own ctime also moves with hidden changes. */
void attr_touch_dir_ctime(struct fence *f, struct inode *dir);

/* After an invisible change: sets the times of the delta's directory back to those that are shown. */
void attr_restore_dir_times(struct fence *f, struct inode *dir, int delta_fd);
