/*
 * Hidden names that a directory still has in the delta although it looks empty. They are removed with it.
 *
 * They are collected before any directory lock is taken, and given back to the quota after their removal. No operation creates,
 * moves or removes any of them meanwhile: they are hidden.
 */
#pragma once

#include "fence/inode.h"

struct hidden_children {
    int64_t names;          /* includes markers */
    uint64_t bytes;         /* of files that are not open */
    struct inode_list kept; /* files that live on until the kernel forgets them */
};

#define HIDDEN_CHILDREN_NONE ((struct hidden_children){ 0 })

/* `dir` may be NULL or no directory: then the result is empty. */
void hidden_children_collect(struct fence *f, struct inode *dir, struct hidden_children *ret);

/* Call after they were removed from the delta and from the tree in memory. */
void hidden_children_release(struct fence *f, const struct hidden_children *hidden);

void hidden_children_done(struct fence *f, struct hidden_children *hidden);
