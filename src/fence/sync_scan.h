/*
 * Making the list of a hand-over: what the walk over the delta (sync_out_list.c) and the one over what is gone from the base (deleted_tree.c)
 * share. All of it behind the closed gate.
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
    struct promised_dir *promised; /* owned: directories on the path that only rules asked for so far */
    size_t promised_count, promised_cap;
    int64_t moved_ns; /* the latest move of a directory on the path */
};

/* What an entry says, apart from the tree, whose lock is not held. */
struct scan_entry {
    char *name;
    uint8_t flags, type;
    struct match_state *match;
    struct inode *inode;
};

/* The directory of the base that belongs to the one of the delta. */
struct base_dir {
    int fd;           /* O_PATH; -1: there is none */
    int64_t cover_ns; /* since when nothing of it showed through; 0: it shows through */
};

/* A removal being spelled out. */
struct deleted_tree {
    struct sync_scan *g;
    int64_t removed_ns;
    bool has_hidden; /* something stays that the sandbox cannot see */
    bool has_newer;  /* something stays that came later */
};

static inline int64_t sync_scan_ns(struct timespec t)
{
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

/* The path of `g` is that of the change. Directories on it that rules had promised are a change too, now that something is in them. */
void sync_scan_change(struct sync_scan *g, const struct sync_out_change *change);
struct sync_out_item *sync_scan_item(struct sync_scan *g, enum sync_out_item_kind kind, struct inode *dir,
                                     const struct scan_entry *it);

/* The length to go back to. */
size_t sync_scan_push(struct sync_scan *g, const char *name);
void sync_scan_pop(struct sync_scan *g, size_t len);

bool base_dir_stat(const struct base_dir *below, const char *name, struct stat *ret);
struct sync_out_base sync_scan_base_of(const struct stat *st);

/* What the base had at the path when it was covered; `base` is what it has now, or NULL. */
struct sync_out_base sync_scan_base_at(struct sync_scan *g, const struct base_dir *below, const struct stat *base);

/* The path of `g` is that of the name. A hidden directory is gone through for what may be visible in it, and stays. */
int deleted_tree_add(struct deleted_tree *w, int dirfd, const char *name, struct match_state *match, unsigned depth);

/* A name with a marker. */
int deleted_tree_add_marked(struct sync_scan *g, struct inode *dir, const struct base_dir *below, const struct scan_entry *it);

/* What the base has in an opaque directory and the delta has not. */
int deleted_tree_add_uncovered(struct sync_scan *g, struct inode *inode, const struct base_dir *in,
                               const struct scan_entry *it);
