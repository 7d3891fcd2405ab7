/*
 * The tree in memory: inodes, and the names by which directories hold them.
 *
 * tree_lock() guards all of it; functions marked [locked] want it held. An inode is freed when neither the kernel nor we nor
 * an entry below it needs it; that happens in tree_unlock(), because closing descriptors has no place under the lock.
 */
#pragma once

#include "fence/fence_int.h"

void tree_lock(struct fence *f);
void tree_unlock(struct fence *f);

int tree_init(struct fence *f);
void tree_done(struct fence *f);

/* Inode numbers: of what is found under a name, and of what is created. */
uint64_t inode_number_of(uint64_t parent_ino, const char *name, size_t len);
uint64_t inode_number_new(struct fence *f); /* [locked] */

/* The inode the kernel means, or NULL. */
struct inode *inode_by_node(struct fence *f, uint64_t node);
/* For whoever holds no reference of the kernel's: the reference that comes back is the caller's. */
struct inode *inode_ref_by_node(struct fence *f, uint64_t node);

/* [locked] A new inode without names, with one reference of ours. */
struct inode *inode_new(struct fence *f, mode_t mode, uint64_t ino, unsigned flags);

void inode_ref(struct inode *inode); /* [locked] */
void inode_unref_locked(struct fence *f, struct inode *inode);
void inode_unref(struct fence *f, struct inode *inode);     /* NULL is fine */
void inode_looked_up(struct fence *f, struct inode *inode); /* [locked] the kernel is given it once more */
void inode_forget(struct fence *f, struct inode *inode, uint64_t count);

/* [locked] Gives its node id up unless the kernel knows it, and gets one again. */
void inode_release_node(struct fence *f, struct inode *inode);
void inode_assign_node(struct fence *f, struct inode *inode);

/* [locked] The level that holds for it, after its names or their places changed. */
void inode_update_level(struct inode *inode);

/* [locked] Dooms it if nobody needs it any more, and with it entries and directories only it kept. */
void inode_release(struct fence *f, struct inode *inode);

/* The hash behind numbers and buckets. */
uint64_t inode_hash(uint64_t seed, const char *bytes, size_t len);

/* [locked] NULL when there is none. `len` is at most NAME_MAX. */
struct entry *entry_find(const struct inode *dir, const char *name, size_t len);

/* [locked] Takes the place. There must be none of that name yet. */
struct entry *entry_add(struct fence *f, struct inode *dir, const char *name, size_t len, struct match_state *take_match,
                        uint64_t ino);

void entry_bind(struct entry *entry, struct inode *inode);    /* [locked] gives the inode this name */
void entry_unbind(struct fence *f, struct entry *entry);      /* [locked] takes it away; maybe its last */
void entry_free_unused(struct fence *f, struct entry *entry); /* [locked] frees one that says nothing any more */
void entry_move(struct fence *f, struct entry *entry, struct inode *dir, const char *name, size_t len,
                struct entry **ret_entry); /* [locked] frees the old one */

/* [locked] Adds "a/b/c" to `out`, nothing for the root. False for one whose way up is cut. */
bool inode_add_path(const struct inode *inode, struct buf *out);

/* The same for a name in a directory, from outside the lock. `out` is emptied first. */
void tree_path_of(struct fence *f, const struct inode *dir, const char *name, struct buf *out);

/* A reference to the place of a directory, for stepping. */
struct match_state *inode_dup_match_state(struct fence *f, const struct inode *dir);

/* Where a file or directory is just now. -ESTALE for the root and for what has no name. */
struct inode_location {
    struct inode *parent; /* a reference of ours */
    char name[NAME_MAX + 1];
    uint8_t len;
};

int inode_locate(struct fence *f, struct inode *inode, struct inode_location *ret);
void inode_location_done(struct fence *f, struct inode_location *where);

/* Calls `fn` for every loaded entry below, parents first. [locked] */
typedef void (*entry_fn)(struct fence *f, struct entry *entry, void *cookie);
void tree_each_below(struct fence *f, struct inode *top, entry_fn fn, void *cookie);

/* [locked] Forgets every name below: the directory is gone. What is loaded of it lives on without a name. */
void tree_purge_below(struct fence *f, struct inode *dir);

/* [locked] Takes the name from the inode that has it, and everything below. Who has it open keeps it. The entry stays. */
void tree_detach(struct fence *f, struct entry *entry);

/* [locked] Takes an inode without a name from the list of those. */
void inode_remove_dead(struct fence *f, struct inode *inode);

/* [locked] One that is about to get a name again. */
void tree_revive(struct fence *f, struct inode *inode);

/* [locked] Where the entry's path stands among the rules now; its parent's must be right already. */
void entry_update_match(struct fence *f, struct entry *entry);
