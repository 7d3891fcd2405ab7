/*
 * A base that others edit meanwhile: directories the kernel knows are watched, and what changed in them is made new.
 */
#pragma once

#include "fence/fence_int.h"

struct live;

/* NULL watching is impossible here (a remote file system): the caller then uses short timeouts. */
struct live *live_new(struct fence *f);
int live_start(struct live *live);
void live_stop(struct live *live);
void live_free(struct live *live);

/* Watches a directory of the base; does nothing for a fence that is not live. */
void live_watch(struct fence *f, struct inode *dir);
