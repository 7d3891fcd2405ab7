/*
 * What a directory that looks empty still holds in the delta: names that are hidden, and go with it.
 *
 * Collected while they are there, before any lock of a directory is taken, and given back to the quota when they have gone. Nobody makes,
 * moves or removes one of them meanwhile: they are hidden.
 */
#pragma once

#include "fence/fence_int.h"

struct hidden_children {
    int64_t names;       /* markers included */
    uint64_t bytes;      /* of files that nobody has open */
    struct inode **kept; /* owned, and a reference to each: files that live on until the kernel forgets them */
    size_t kept_count, kept_cap;
};

#define HIDDEN_CHILDREN_NONE ((struct hidden_children){ 0 })

/* Nothing for what is no directory; NULL is fine. */
void hidden_children_collect(struct fence *f, struct inode *dir, struct hidden_children *ret);

/* They are gone from the delta and from the tree in memory. */
void hidden_children_release(struct fence *f, const struct hidden_children *hidden);

void hidden_children_done(struct fence *f, struct hidden_children *hidden);
