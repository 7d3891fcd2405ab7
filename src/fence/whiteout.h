/*
 * Markers in the delta: ".wh.<name>" means that the name is deleted, ".wh..wh..opq" that nothing of the base shows through the
 * directory it is in. A name too long for the prefix has the marker ".wh..wh..h-<hash>", which contains the name.
 *
 * A marker wins over a file of its name beside it, so every change of both takes effect at one moment.
 */
#pragma once

#include "fence/fence_int.h"

#define WHITEOUT_PREFIX ".wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"
#define WHITEOUT_HASHED ".wh..wh..h-"

bool whiteout_is_reserved(const char *name);

/* The marker's name for a file name of 1 to 255 bytes. */
void whiteout_name(const char *name, char out[NAME_MAX + 1]);

/* Writes the name that a marker in a directory deletes to `out`. Returns 1; 0 for another kind of marker or none; -errno if it
 * cannot be read. */
int whiteout_target(int dirfd, const char *marker, char out[NAME_MAX + 1]);

/* Returns 0 also if the marker exists. It appears complete or not at all. */
/* Without a temporary file: for a delta that no fence uses, where each step may be repeated. */
int whiteout_create_in_place(int dirfd, const char *name);
int whiteout_create(struct fence *f, int dirfd, const char *name);
int whiteout_create_by(int work_fd, const char *temp, int dirfd,
                       const char *name); /* without a fence; no one else uses `temp` */
bool whiteout_exists(int dirfd, const char *name);
int whiteout_remove(int dirfd, const char *name); /* 0 also if it does not exist */
int whiteout_make_opaque(int dirfd);
bool whiteout_is_opaque(int dirfd);
