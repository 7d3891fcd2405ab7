/* The inside of a sync-out: listing the changes (sync_out_list.c), and removing them from the delta (sync_out_prune.c). */
#pragma once

#include "fence/invalidate.h"
#include "fence/sync_out.h"

enum sync_out_item_kind {
    SYNC_OUT_ITEM_FILE,   /* something in the delta that is no directory */
    SYNC_OUT_ITEM_MARKER, /* a deleted name */
    SYNC_OUT_ITEM_DIR,    /* a directory of the delta */
    SYNC_OUT_ITEM_HIDE,   /* nothing yet: a name that needs a marker when its directory is not opaque any more */
};

/* Something that the delta has under a name and that may leave it. */
struct sync_out_item {
    enum sync_out_item_kind kind;
    struct inode *dir;   /* a reference; the directory with the name */
    struct inode *inode; /* a reference; NULL if not loaded, never for a directory */
    char *path;          /* owned */
    const char *name;    /* in path */
    size_t first, count; /* its changes in the list */
    bool is_opaque;      /* a directory through which nothing of the base showed */
    bool is_blocked;     /* stays */
    uint64_t bytes;      /* what a file counts for */
};

struct sync_out_list {
    struct sync_out_change *changes; /* owned, with their paths */
    size_t count, cap;
    struct sync_out_item *items; /* owned; a directory comes before its children */
    size_t item_count, item_cap;
};

/* Lists all changes. [gate closed] */
int sync_out_list_fill(struct fence *f, struct sync_out_list *list);
void sync_out_list_done(struct fence *f, struct sync_out_list *list);

/* Removes what was applied or lost from the delta, on disk and in memory. [gate closed] */
void sync_out_prune(struct fence *f, struct sync_out_list *list, struct inval_batch *batch);

/* Completes the sync-out of a process that was killed after `apply`. Call before the delta is loaded. */
int sync_out_recover(struct fence *f);

/* Write and remove the intent that sync_out_recover() needs, before `apply` and after the removal from the delta. */
int sync_out_begin(struct fence *f, const struct sync_out_list *list);
void sync_out_end(struct fence *f);

/* Also for fence_quiesce(): fetches pages that were changed through a mapping; waits until no operation is under way. */
int sync_out_fetch_pages(struct fence *f, int64_t patience_ns, struct err *err);
int sync_out_close_gate(struct fence *f, int64_t patience_ns, struct err *err);
