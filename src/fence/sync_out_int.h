/* A hand-over from inside: what there is to give (sync_out_list.c), and how it leaves the delta (sync_out_prune.c). */
#pragma once

#include "fence/fence_int.h"
#include "fence/sync_out.h"

enum sync_out_item_kind {
    SYNC_OUT_ITEM_FILE,   /* the delta has something that is no directory */
    SYNC_OUT_ITEM_MARKER, /* a name that is deleted */
    SYNC_OUT_ITEM_DIR,    /* a directory of the delta */
    SYNC_OUT_ITEM_HIDE,   /* no such thing yet: a name in an opaque directory that needs a marker when that is opaque no more */
};

/* Something the delta has under a name, and that may leave it. */
struct sync_out_item {
    enum sync_out_item_kind kind;
    struct inode *dir;   /* a reference: the directory with the name */
    struct inode *inode; /* a reference; NULL where nobody had it loaded, never for a directory */
    char *path;          /* owned */
    const char *name;    /* in path */
    size_t first, count; /* its changes in the list */
    bool is_opaque;      /* a directory: nothing of the base showed through */
    bool is_blocked;     /* stays */
    uint64_t bytes;      /* what a file counts for */
};

struct sync_out_list {
    struct sync_out_change *changes; /* owned, with their paths */
    size_t count, cap;
    struct sync_out_item *items; /* owned; a directory comes before what is in it */
    size_t item_count, item_cap;
};

/* Everything, behind the closed gate. */
int sync_out_list_fill(struct fence *f, struct sync_out_list *list);
void sync_out_list_done(struct fence *f, struct sync_out_list *list);

/* A name that is another's now: for the kernel to ask again. */
struct sync_out_inval {
    struct inode *dir;   /* a reference */
    struct inode *inode; /* a reference; NULL: not loaded */
    char *name;          /* owned */
};

struct sync_out_invals {
    struct sync_out_inval *items; /* owned */
    size_t count, cap;
};

/* After it was taken, behind the closed gate: what was taken or lost leaves the delta on disk and in memory. */
void sync_out_prune(struct fence *f, struct sync_out_list *list, struct sync_out_invals *batch);

/* With the gate open again. */
void sync_out_notify(struct fence *f, struct sync_out_invals *batch);

/* Before the delta is loaded: what a process that was killed after the taking had left. */
int sync_out_recover(struct fence *f);

/* What sync_out_recover() needs to know, from before the taking until after the drop. */
int sync_out_begin(struct fence *f, const struct sync_out_list *list);
void sync_out_end(struct fence *f);

/* Also for whoever holds the fence still (quiesce.h): pages that were changed through a mapping come to us; then nobody is at work. */
int sync_out_fetch_pages(struct fence *f, int64_t patience_ns, struct err *err);
int sync_out_close_gate(struct fence *f, int64_t patience_ns, struct err *err);
