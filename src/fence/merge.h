/*
 * What a directory shows: the names of both layers that the rules let through, each with a position of its own.
 *
 * A listing is a snapshot, immutable and refcounted. Positions (cookies) come from names, never from how many there are or
 * where they lie, so a hidden name between two others leaves no trace, and reading goes on after any change.
 */
#pragma once

#include "fence/fence_int.h"

#define COOKIE_DOT 1
#define COOKIE_DOTDOT 2

struct dir_listing_item {
    uint64_t cookie; /* ascending; above COOKIE_DOTDOT, below 2^63 */
    uint64_t ino;
    const char *name;
    uint8_t type; /* DT_* */
};

struct dir_listing {
    _Atomic uint32_t refs;
    uint64_t version; /* of the directory when it was taken */
    size_t count;
    struct dir_listing_item *items;
    struct buf names; /* where the names lie */
};

struct dir_listing *dir_listing_ref(struct dir_listing *listing);
void dir_listing_unref(struct dir_listing *listing);

/* Index of the first item after `cookie`. */
size_t dir_listing_after(const struct dir_listing *listing, uint64_t cookie);

/* The directory's listing. `may_be_old`: any recent one will do, as for reading on in the middle. */
int merge_list(struct fence *f, struct inode *dir, bool may_be_old, struct dir_listing **ret_listing);

/* Whether it would list anything at all. */
bool merge_shows_any(struct fence *f, struct inode *dir);

/* Every name of either layer, hidden ones too, deleted ones and markers not. A nonzero answer of `fn` ends it. */
typedef int (*merge_fn)(const char *name, uint8_t type, void *cookie);
int merge_each(struct fence *f, struct inode *dir, merge_fn fn, void *cookie);

/* Every name of the base's directory, whatever the delta says of it. */
int merge_each_base(struct fence *f, struct inode *dir, merge_fn fn, void *cookie);

/* For the tests: gives positions to items sorted by hash. */
void dir_listing_sort(struct dir_listing *listing);
