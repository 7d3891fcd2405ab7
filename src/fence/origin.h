/*
 * <delta>/meta/origins: what the base had under a name when the sandbox first covered it, by a copy, a marker or something else.
 * Whoever takes the change over compares it with what is there then. Only where changes are handed over (handover.h).
 */
#pragma once

#include "fence/fence_int.h"

struct origins;

struct origin {
    uint64_t ino, size_bytes;
    int64_t mtime_ns;
};

int origins_open(struct fence *f, struct origins **ret);
void origins_close(struct origins *origins);

/* The base has this under the name, which is about to be covered. The first time counts. Does nothing without f->origins. */
void origin_note(struct fence *f, const struct inode *dir, const char *name, const struct stat *base);

/* False: nothing was there, or it was covered with a directory above it. */
bool origin_find(struct fence *f, const char *path, struct origin *ret);
void origin_forget(struct fence *f, const char *path);
