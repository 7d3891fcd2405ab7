/*
 * What the kernel has to hear: names, pages and listings that are no longer what it remembers. Collected while the gate is held,
 * told when it is open again (see notify.h).
 */
#pragma once

#include "fence/fence_int.h"

struct news_name {
    struct inode *dir; /* owned reference, as all here */
    char *name;        /* owned */
    bool only_expires;
};

struct news {
    struct news_name *names;
    struct inode **inodes, **dirs;
    size_t name_count, name_cap, inode_count, inode_cap, dir_count, dir_cap;
    bool is_wide; /* any name in `dirs` may be another now, also one that was not there */
};

#define NEWS_NONE ((struct news){ 0 })

/* A directory that is still there only expires: a dropped one breaks getcwd for who stands in it. */
void news_add_name(struct fence *f, struct news *news, struct inode *dir, const char *name, bool only_expires);
void news_add_pages(struct fence *f, struct news *news, struct inode *inode); /* and attributes */
void news_add_listing(struct fence *f, struct news *news, struct inode *dir); /* and attributes */

/* Tells it and empties it. With `and_waits` also answers that are on their way count for nothing when this returns. */
void news_send(struct fence *f, struct news *news, bool and_waits);

/* Empties it: there is nobody to tell. */
void news_drop(struct fence *f, struct news *news);
