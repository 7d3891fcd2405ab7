/*
 * Decides whether a listing carries the attributes of files.
 *
 * With them, grep and cp need no LOOKUP for each file. Programs that only want names, such as find, a shell's glob or an
 * editor's tree, pay for a look-up of every file, several times what the names cost, and the file system caches them all.
 *
 * The kernel does not say which it is, but if a program wants the attributes of a file listed without them, it looks the file
 * up. So files are listed without attributes until one in such a directory is looked up. Then the next READDIRPLUS_LISTINGS
 * listings have them, and after those one is tried without again. Directories always have attributes: programs that walk a tree
 * enter them.
 */
#pragma once

#include <sys/stat.h>

#include "fence/fence_int.h"

#define READDIRPLUS_LISTINGS 64

/* A program begins to list the directory. */
static inline void readdirplus_begin(struct fence *f, struct inode *dir)
{
    int left = atomic_load_explicit(&f->readdirplus_left, memory_order_relaxed);

    if (left <= 0) {
        inode_set(dir, INODE_LISTED_PLAIN);
        return;
    }
    atomic_store_explicit(&f->readdirplus_left, left - 1, memory_order_relaxed);
    inode_clear(dir, INODE_LISTED_PLAIN);
}

/* A file in the directory was looked up by its name. */
static inline void readdirplus_looked_up(struct fence *f, const struct inode *dir, const struct inode *file)
{
    if (inode_has(dir, INODE_LISTED_PLAIN) && !S_ISDIR(atomic_load_explicit(&file->mode, memory_order_relaxed)))
        atomic_store_explicit(&f->readdirplus_left, READDIRPLUS_LISTINGS, memory_order_relaxed);
}
