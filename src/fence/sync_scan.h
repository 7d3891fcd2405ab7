/*
 * Making the list of a sync-out: what the walk over the delta (sync_out_list.c) and the one over deleted parts of the base
 * (deleted_tree.c) share. [gate closed]
 */
#pragma once

#include "base/clock.h"
#include "fence/sync_out_int.h"

struct promised_dir {
    size_t path_len;
    mode_t mode;
};

struct sync_scan {
    struct fence *f;
    struct sync_out_list *list;
    struct buf path;
    struct buf roots;              /* text of meta/roots */
    struct promised_dir *promised; /* owned; directories on the path that so far only rules asked for */
    size_t promised_count, promised_cap;
    int64_t moved_ns; /* the latest rename of a directory on the path */
};

/* A copy of an entry, usable without the lock of the tree. */
struct scan_entry {
    char *name;
    uint8_t flags, type;
    struct match_state *match;
    struct inode *inode;
};

/* The base directory that belongs to one of the delta. */
struct base_dir {
    int fd;           /* O_PATH; -1: there is none */
    int64_t cover_ns; /* since when nothing of it showed through; 0: it shows through */
};

/* A deletion that is being expanded. */
struct deleted_tree {
    struct sync_scan *g;
    int64_t removed_ns;
    bool has_hidden; /* something stays that is hidden from the sandbox */
    bool has_newer;  /* something stays that is newer */
};

static inline int64_t sync_scan_ns(struct timespec t)
{
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

/* Adds a change at the path of `g`. Directories on it that only rules asked for become changes too, now that something is in
 * them. */
void sync_scan_change(struct sync_scan *g, const struct sync_out_change *change);
struct sync_out_item *sync_scan_item(struct sync_scan *g, enum sync_out_item_kind kind, struct inode *dir,
                                     const struct scan_entry *it);

/* Returns the length for sync_scan_pop(). */
size_t sync_scan_push(struct sync_scan *g, const char *name);
void sync_scan_pop(struct sync_scan *g, size_t len);

bool base_dir_stat(const struct base_dir *below, const char *name, struct stat *ret);
struct sync_out_base sync_scan_base_of(const struct stat *st);

/* What the base had at the path when it was covered. `base` is what it has now, or NULL. */
struct sync_out_base sync_scan_base_at(struct sync_scan *g, const struct base_dir *below, const struct stat *base);

/* Expands the deletion of a name, whose path is that of `g`. A hidden directory is searched for visible children, and stays. */
int deleted_tree_add(struct deleted_tree *w, int dirfd, const char *name, struct match_state *match, unsigned depth);

/* The same for a name with a marker. */
int deleted_tree_add_marked(struct sync_scan *g, struct inode *dir, const struct base_dir *below, const struct scan_entry *it);

/* The same for what the base has in an opaque directory and the delta has not. */
int deleted_tree_add_uncovered(struct sync_scan *g, struct inode *inode, const struct base_dir *in,
                               const struct scan_entry *it);
