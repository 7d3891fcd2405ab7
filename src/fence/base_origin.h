/*
 * <delta>/meta/origins: what the base had under a name when the sandbox first covered it, by a copy, a marker or something else.
 * Whoever takes the change over compares it with what is there then. Only where changes are handed over (sync_out.h).
 */
#pragma once

#include "fence/fence_int.h"

struct base_origins;

struct base_origin {
    uint64_t ino, size_bytes;
    int64_t mtime_ns;
};

int base_origins_open(struct fence *f, struct base_origins **ret);
void base_origins_close(struct base_origins *base_origins);

/* The base has this under the name, which is about to be covered. The first time counts. Does nothing without f->base_origins. */
void base_origin_note(struct fence *f, const struct inode *dir, const char *name, const struct stat *base);

/* False: nothing was there, or it was covered with a directory above it. */
bool base_origin_find(struct fence *f, const char *path, struct base_origin *ret);
void base_origin_forget(struct fence *f, const char *path);
