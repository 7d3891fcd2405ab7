/*
 * A workspace without a fence: the kernel's overlayfs over the base, with the delta as its upper layer. Nothing checks
 * accesses, so it is for sandboxes whose rules forbid nothing.
 *
 * All mounts are in our own mount namespace and end with it. As root, an idmapped mount shows the files of the base's owner as
 * the sandbox user's, and new files belong to root on disk, so the next start may have another user.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* Borrowed for the call. */
struct overlay_config {
    int base_fd;             /* the base; opened in our mount namespace */
    const char *base_path;   /* its name */
    const char *delta_path;  /* made by a fence: overlay_delta.h */
    const char *lower_point; /* our directory, where the base is mounted with another owner */
    const char *mount_point;
    uid_t uid;
    gid_t gid;
};

/* From now on the delta belongs to the kernel. `ret_lock_fd` is the delta's lock. */
int overlay_mount(const struct overlay_config *config, int *ret_lock_fd, struct err *err);

/* Unmounts and converts the delta back. */
void overlay_unmount(const struct overlay_config *config, int lock_fd);
