/*
 * <delta>/meta/origins: what the base had under a name when the sandbox first covered it, by a copy, a marker or something
 * else. Whoever applies the change compares it with what is there then. Only with syncs_out (sync_out.h).
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

/* Records what the base has under a name that is about to be covered; only the first time counts. Does nothing without
 * f->base_origins. */
void base_origin_note(struct fence *f, const struct inode *dir, const char *name, const struct stat *base);

/* Returns false if nothing was there, or if the name was covered together with a directory above it. */
bool base_origin_find(struct fence *f, const char *path, struct base_origin *ret);
void base_origin_forget(struct fence *f, const char *path);
