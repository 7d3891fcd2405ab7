/*
 * Follows changes that others make to a live base: watches the directories that the kernel knows and updates what changed in
 * them.
 */
#pragma once

#include "fence/fence_int.h"

struct base_watch;

struct base_watch *base_watch_new(struct fence *f);
int base_watch_start(struct base_watch *base_watch);
void base_watch_stop(struct base_watch *base_watch);
void base_watch_free(struct base_watch *base_watch);

/* Watches a directory of the base, or marks it as unwatched if that fails. Does nothing for a fence that is not live. `base` is
 * the result of a stat. */
void base_watch_add(struct fence *f, struct inode *dir, const struct stat *base);

/* Tries to watch a directory; `base` may be NULL. -EREMOTE: it can never be watched; other errors: perhaps later. */
int base_watch_try_add(struct fence *f, struct inode *dir, const struct stat *base);
