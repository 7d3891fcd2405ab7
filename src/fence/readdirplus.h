/*
 * Whether who lists a directory goes on to look at the files in it.
 *
 * A listing can carry the attributes of all it names: grep and cp then need no LOOKUP for each file. Who only wants names, as find, a
 * glob or an editor's tree do, pays for having every file looked up, several times what the names cost, and the file system remembers
 * them all.
 *
 * The kernel does not tell which it is, but of a file that was listed without attributes it asks if it wants them. So files are listed
 * without until one is asked for in a directory that was; then the next READDIRPLUS_LISTINGS have them, and after those one is tried
 * without again. Directories are always listed with theirs: who walks a tree enters them.
 */
#pragma once

#include <sys/stat.h>

#include "fence/fence_int.h"

#define READDIRPLUS_LISTINGS 64

/* Somebody begins to list the directory. */
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
