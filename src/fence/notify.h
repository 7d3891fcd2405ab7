/*
 * Notifications that make the kernel drop cached state. -ENOENT: it had none. Never call them from a worker or with the gate
 * held (see invalidate.h).
 */
#pragma once

#include "fence/fence_int.h"

int notify_entry(struct fence *f, struct inode *dir, const char *name, bool only_expire);
int notify_pages(struct fence *f, struct inode *inode); /* and attributes */
int notify_listing(struct fence *f, struct inode *dir); /* the same, also for answers that are under way: waits for them */
int notify_all_names(struct fence *f);                  /* -EINVAL before Linux 6.16 */
