/* A hand-over from inside: what there is to give (handover_list.c), and how it leaves the delta (handover_drop.c). */
#pragma once

#include "fence/fence_int.h"
#include "fence/handover.h"

enum handover_item_kind {
    HANDOVER_ITEM_FILE,   /* the delta has something that is no directory */
    HANDOVER_ITEM_MARKER, /* a name that is deleted */
    HANDOVER_ITEM_DIR,    /* a directory of the delta */
    HANDOVER_ITEM_VEIL,   /* no such thing yet: a name in an opaque directory that needs a marker when that is opaque no more */
};

/* Something the delta has under a name, and that may leave it. */
struct handover_item {
    enum handover_item_kind kind;
    struct inode *dir;   /* a reference: the directory with the name */
    struct inode *inode; /* a reference; NULL where nobody had it loaded, never for a directory */
    char *path;          /* owned */
    const char *name;    /* in path */
    size_t first, count; /* its changes in the list */
    bool is_opaque;      /* a directory: nothing of the base showed through */
    bool is_blocked;     /* stays */
    uint64_t bytes;      /* what a file counts for */
};

struct handover_list {
    struct handover_change *changes; /* owned, with their paths */
    size_t count, cap;
    struct handover_item *items; /* owned; a directory comes before what is in it */
    size_t item_count, item_cap;
};

/* Everything, behind the closed gate. */
int handover_list_fill(struct fence *f, struct handover_list *list);
void handover_list_done(struct fence *f, struct handover_list *list);

/* A name that is another's now: for the kernel to ask again. */
struct handover_renewal {
    struct inode *dir;   /* a reference */
    struct inode *inode; /* a reference; NULL: not loaded */
    char *name;          /* owned */
};

struct handover_news {
    struct handover_renewal *items; /* owned */
    size_t count, cap;
};

/* After it was taken, behind the closed gate: what was taken or lost leaves the delta on disk and in memory. */
void handover_drop(struct fence *f, struct handover_list *list, struct handover_news *news);

/* With the gate open again. */
void handover_tell(struct fence *f, struct handover_news *news);

/* Before the delta is loaded: what a process that was killed after the taking had left. */
int handover_settle(struct fence *f);

/* What handover_settle() needs to know, from before the taking until after the drop. */
int handover_begin(struct fence *f, const struct handover_list *list);
void handover_end(struct fence *f);

/* Also for whoever holds the fence still (hold.h): pages that were changed through a mapping come to us; then nobody is at work. */
int handover_fetch_pages(struct fence *f, int64_t patience_ns, struct err *err);
int handover_close_gate(struct fence *f, int64_t patience_ns, struct err *err);
