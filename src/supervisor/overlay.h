/*
 * A workspace without a fence: the kernel's overlayfs over the base, with the delta as its upper layer. Nothing in it is checked, so
 * it is for sandboxes whose rules forbid nothing.
 *
 * All mounts are made in our own mount namespace and end with it. As root, the sandbox's user appears as the owner of what belongs to
 * the owner of the base, and of what it makes; on disk that belongs to root, so the next start may have another user.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* Borrowed for the call. */
struct overlay_config {
    int base_fd;             /* what is mounted; in our mount namespace */
    const char *base_path;   /* its name */
    const char *delta_path;  /* made by a fence: see overlay_delta.h */
    const char *lower_point; /* a directory of ours, where the base is mounted under another owner's name */
    const char *mount_point;
    uid_t uid;
    gid_t gid;
};

/* The delta is lent to the kernel from here on. `ret_lock_fd` is the delta's lock. */
int overlay_mount(const struct overlay_config *config, int *ret_lock_fd, struct err *err);

/* Takes the mount away and the delta back. */
void overlay_unmount(const struct overlay_config *config, int lock_fd);
