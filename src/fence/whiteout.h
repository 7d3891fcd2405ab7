/*
 * Markers in the delta: ".wh.<name>" says the name is deleted, ".wh..wh..opq" in a directory that nothing of the base shows
 * through it. A name too long for the prefix has the marker ".wh..wh..h-<hash>" with the name inside.
 *
 * A marker wins over a file of its name beside it: so every step "file and marker" has one moment at which it happens.
 */
#pragma once

#include "fence/fence_int.h"

#define WHITEOUT_PREFIX ".wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"
#define WHITEOUT_HASHED ".wh..wh..h-"

bool whiteout_is_reserved(const char *name);

/* The marker's name for a file name of 1 to 255 bytes. */
void whiteout_name(const char *name, char out[NAME_MAX + 1]);

/* What a marker found in a directory deletes: the name in `out`. 1; 0 for no marker, or one of another kind; -errno for one that cannot be read. */
int whiteout_target(int dirfd, const char *marker, char out[NAME_MAX + 1]);

/* 0 also when it is there already. The marker appears whole or not at all. */
int whiteout_create(struct fence *f, int dirfd, const char *name);
int whiteout_create_by(int work_fd, const char *temp, int dirfd,
                       const char *name);         /* without a fence; `temp` is nobody else's */
int whiteout_remove(int dirfd, const char *name); /* 0 also when it is not there */
int whiteout_make_opaque(int dirfd);
bool whiteout_is_opaque(int dirfd);
