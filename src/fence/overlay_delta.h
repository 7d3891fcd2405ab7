/*
 * A delta in the form that the kernel's overlayfs writes and reads: a deleted name is a device node 0/0 instead of a marker, and a
 * directory through which nothing of the base shows carries an attribute.
 *
 * While an overlayfs uses the delta, its file meta/lent says so. Everything that reads changes understands both forms, also mixed;
 * whatever changes a delta first makes it ours again. Each step can be repeated, so who is killed in between loses nothing.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Ours to the kernel's. `delta_fd` is the directory of the delta. The caller has its lock, and keeps it as long as the overlayfs lives. */
int overlay_delta_to_overlayfs(int delta_fd, struct err *err);

/* And back, without the attributes that overlayfs leaves on files. Nothing to do when it was not lent. The caller has the lock. */
int overlay_delta_from_overlayfs(int delta_fd, struct err *err);

bool overlay_delta_is_in_overlayfs_form(int meta_fd);

/* Whether this is how overlayfs says that a name is deleted. */
struct stat;
bool overlay_delta_is_whiteout(const struct stat *st);
bool overlay_delta_is_opaque(int dirfd);
