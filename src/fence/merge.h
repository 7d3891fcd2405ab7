/*
 * What a directory shows: the names of both layers that the rules let through, each with a position.
 *
 * A listing is a snapshot, immutable and refcounted. Positions (cookies) are made from names, never from their number or order,
 * so a hidden name between two others leaves no trace, and reading can continue after any change.
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
    uint64_t version; /* the directory's version when it was built */
    size_t count;
    struct dir_listing_item *items;
    struct buf names; /* the text of the names */
};

struct dir_listing *dir_listing_ref(struct dir_listing *listing);
void dir_listing_unref(struct dir_listing *listing);

/* Index of the first item after `cookie`. */
size_t dir_listing_after(const struct dir_listing *listing, uint64_t cookie);

/* Returns the directory's listing. `may_be_old`: any recent one will do, to continue reading. */
int merge_list(struct fence *f, struct inode *dir, bool may_be_old, struct dir_listing **ret_listing);

/* Returns true if the listing is not empty. */
bool merge_shows_any(struct fence *f, struct inode *dir);

/* Calls `fn` for every name of either layer, hidden ones too, without deleted ones and markers. A nonzero result of `fn` ends
 * the walk. */
typedef int (*merge_fn)(const char *name, uint8_t type, void *cookie);
int merge_each(struct fence *f, struct inode *dir, merge_fn fn, void *cookie);

/* Calls `fn` for every name in the base's directory, whatever the delta says of it. */
int merge_each_base(struct fence *f, struct inode *dir, merge_fn fn, void *cookie);

/* Sorts the items and makes their cookies unique; here for tests. */
void dir_listing_sort(struct dir_listing *listing);
