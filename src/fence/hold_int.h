/* A release from inside: what is in memory of the paths that leave the delta (hold_tree.c). All of it behind the closed gate. */
#pragma once

#include "fence/drop.h"
#include "fence/news.h"

/* Something the delta has under a name, and that is about to leave it. */
struct held_item {
    struct inode *dir;   /* a reference: the directory with the name */
    struct inode *inode; /* a reference; NULL where nobody had it loaded */
    char *path;          /* owned */
    const char *name;    /* in path */
    uint8_t flags;       /* of the entry */
    bool is_dir;
    bool lives_on;  /* a file without a name from then on, kept for who has it open */
    uint64_t bytes; /* what a file counts for */
};

struct held_items {
    struct held_item *items; /* owned; a directory comes before what is in it */
    size_t count, cap;
};

void held_items_done(struct fence *f, struct held_items *items);

/* Before the path goes: what it stands for, and files that would lose their content are kept open. */
void held_collect(struct fence *f, const char *path, struct held_items *items);

/* After it went from the disk: memory follows. */
void held_forget(struct fence *f, const struct held_items *items, struct news *news);

/* Directories on the way to a path, as drop_perform() left them: before held_forget(), which needs to see the base through those that
 * were opened, and after it. */
void held_follow_opened(struct fence *f, const char *path, const struct drop_trace *trace, struct news *news);
void held_follow_gone(struct fence *f, const char *path, size_t gone_from, struct news *news);

/* A file of the delta has other content. */
void held_replaced(struct fence *f, const char *path, struct news *news);
