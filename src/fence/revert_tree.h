/* A revert on a running fence: the paths' inodes and entries in memory. All functions need the gate closed. */
#pragma once

#include "fence/invalidate.h"
#include "fence/revert.h"

/* Something that the delta has under a name and that is about to leave it. */
struct revert_item {
    struct inode *dir;   /* a reference; the directory with the name */
    struct inode *inode; /* a reference; NULL if not loaded */
    char *path;          /* owned */
    const char *name;    /* in path */
    uint8_t flags;       /* of the entry */
    bool is_dir;
    bool lives_on;  /* becomes an open file without a name */
    uint64_t bytes; /* what a file counts for */
};

struct revert_items {
    struct revert_item *items; /* owned; a directory comes before its children */
    size_t count, cap;
};

void revert_items_done(struct fence *f, struct revert_items *items);

/* Call before the path is removed: collects what is there, and keeps open files that would lose their content. */
void revert_tree_collect(struct fence *f, const char *path, struct revert_items *items);

/* Call after its removal from the disk: updates memory. */
void revert_tree_forget(struct fence *f, const struct revert_items *items, struct inval_batch *batch);

/* Update the directories above a path as revert_perform() left them: revert_tree_update_opened() before revert_tree_forget(),
 * which must see the base through the opened ones; the other after it. */
void revert_tree_update_opened(struct fence *f, const char *path, const struct revert_trace *trace, struct inval_batch *batch);
void revert_tree_update_removed(struct fence *f, const char *path, size_t removed_from, struct inval_batch *batch);

/* A file of the delta has other content. */
void revert_tree_replaced(struct fence *f, const char *path, struct inval_batch *batch);
