/*
 * A base that others edit meanwhile: directories the kernel knows are watched, and what changed in them is made new.
 */
#pragma once

#include "fence/fence_int.h"

struct live;

struct live *live_new(struct fence *f);
int live_start(struct live *live);
void live_stop(struct live *live);
void live_free(struct live *live);

/* Watches a directory of the base, or makes it a blind one; does nothing for a fence that is not live. `base` is what a stat of it
 * said. */
void live_watch(struct fence *f, struct inode *dir, const struct stat *base);

/* The same for one that is blind; `base` may be NULL. -EREMOTE: it cannot be watched at all; others: perhaps later. */
int live_try_watch(struct fence *f, struct inode *dir, const struct stat *base);
