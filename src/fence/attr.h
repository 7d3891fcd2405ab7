/*
 * What stat(2) shows: the backing file's size and times, a mode that says what the level allows, and nothing that tells of
 * hidden files.
 */
#pragma once

#include "fence/fence_int.h"

#define ATTR_BLOCK 4096
#define TIMEOUT_HIDDEN_S 1.0 /* for names the rules hide, there or not: short, so that attempts are seen */

/* `backing` may be NULL for a directory. */
void attr_fill(struct fence *f, struct inode *inode, const struct stat *backing, struct stat *ret_st);

/* The same, asking the layers. */
int attr_get(struct fence *f, struct inode *inode, struct stat *ret_st);

/* A visible change in the directory: its times move to the delta's clock, its listing is new. [dir stripe held or not] */
void attr_touch_dir(struct fence *f, struct inode *dir, int delta_fd);

/* Its mode, attributes or name changed, which is no change of its entries: only ctime moves. Kept in memory, until the
 * next mount begins with its mtime: the delta's own ctime also moves with what nobody may see. */
void attr_touch_dir_ctime(struct fence *f, struct inode *dir);

/* An invisible one: the delta's directory gets back the times that are shown. */
void attr_restore_dir_times(struct fence *f, struct inode *dir, int delta_fd);
