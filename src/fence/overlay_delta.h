/*
 * A delta in the format of the kernel's overlayfs: a deleted name is a device node 0/0 instead of a marker, and an opaque
 * directory carries an attribute.
 *
 * While an overlayfs uses the delta, the file meta/lent exists. Everything that reads changes understands both formats, also
 * mixed; whatever changes a delta converts it back first. Each step can be repeated, so a kill in between loses nothing.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Converts it to overlayfs's format. `delta_fd` is the directory of the delta. The caller holds its lock as long as the
 * overlayfs exists. */
int overlay_delta_to_overlayfs(int delta_fd, struct err *err);

/* Converts it back, and removes the attributes that overlayfs leaves on files. Does nothing if it was not converted. The caller
 * holds the lock. */
int overlay_delta_from_overlayfs(int delta_fd, struct err *err);

bool overlay_delta_is_in_overlayfs_form(int meta_fd);

/* Returns true for overlayfs's representation of a deleted name. */
struct stat;
bool overlay_delta_is_whiteout(const struct stat *st);
bool overlay_delta_is_opaque(int dirfd);
