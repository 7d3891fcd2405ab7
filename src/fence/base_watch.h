/*
 * A base that others edit meanwhile: directories the kernel knows are watched, and what changed in them is made new.
 */
#pragma once

#include "fence/fence_int.h"

struct base_watch;

struct base_watch *base_watch_new(struct fence *f);
int base_watch_start(struct base_watch *base_watch);
void base_watch_stop(struct base_watch *base_watch);
void base_watch_free(struct base_watch *base_watch);

/* Watches a directory of the base, or makes it a blind one; does nothing for a fence that is not live. `base` is what a stat of it
 * said. */
void base_watch_add(struct fence *f, struct inode *dir, const struct stat *base);

/* The same for one that is blind; `base` may be NULL. -EREMOTE: it cannot be watched at all; others: perhaps later. */
int base_watch_try_add(struct fence *f, struct inode *dir, const struct stat *base);
