/* A release from inside: what is in memory of the paths that leave the delta (revert_tree.c). All of it behind the closed gate. */
#pragma once

#include "fence/inval_batch.h"
#include "fence/revert.h"

/* Something the delta has under a name, and that is about to leave it. */
struct revert_item {
    struct inode *dir;   /* a reference: the directory with the name */
    struct inode *inode; /* a reference; NULL where nobody had it loaded */
    char *path;          /* owned */
    const char *name;    /* in path */
    uint8_t flags;       /* of the entry */
    bool is_dir;
    bool lives_on;  /* a file without a name from then on, kept for who has it open */
    uint64_t bytes; /* what a file counts for */
};

struct revert_items {
    struct revert_item *items; /* owned; a directory comes before what is in it */
    size_t count, cap;
};

void revert_items_done(struct fence *f, struct revert_items *items);

/* Before the path goes: what it stands for, and files that would lose their content are kept open. */
void revert_tree_collect(struct fence *f, const char *path, struct revert_items *items);

/* After it went from the disk: memory follows. */
void revert_tree_forget(struct fence *f, const struct revert_items *items, struct inval_batch *batch);

/* Directories on the way to a path, as revert_perform() left them: before revert_tree_forget(), which needs to see the base through those that
 * were opened, and after it. */
void revert_tree_update_opened(struct fence *f, const char *path, const struct revert_trace *trace, struct inval_batch *batch);
void revert_tree_update_removed(struct fence *f, const char *path, size_t removed_from, struct inval_batch *batch);

/* A file of the delta has other content. */
void revert_tree_replaced(struct fence *f, const char *path, struct inval_batch *batch);
