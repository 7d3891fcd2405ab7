/*
 * Messages to the kernel that are no replies: it is to forget something. -ENOENT: it had nothing of the kind cached. Never from a
 * worker and never with the gate held (see invalidate.h).
 */
#pragma once

#include "fence/fence_int.h"

int notify_entry(struct fence *f, struct inode *dir, const char *name, bool only_expire);
int notify_pages(struct fence *f, struct inode *inode); /* and attributes */
int notify_listing(struct fence *f, struct inode *dir); /* the same, also of answers that are on their way: waits for them */
int notify_all_names(struct fence *f);                  /* -EINVAL before Linux 6.16 */
