/*
 * The tree in memory: inodes, and the names by which directories hold them.
 *
 * tree_lock() guards all of it; functions marked [locked] require it. An inode is freed when neither the kernel nor we nor an
 * entry below it needs it. That happens in tree_unlock(), because descriptors are not closed under the lock.
 */
#pragma once

#include "fence/fence_int.h"

void tree_lock(struct fence *f);
void tree_unlock(struct fence *f);

int tree_init(struct fence *f);
void tree_done(struct fence *f);

/* The inode number of what is found under a name, and of what is created. */
uint64_t inode_number_of(uint64_t parent_ino, const char *name, size_t len);
uint64_t inode_number_new(struct fence *f); /* [locked] */

/* The inode of a node id, or NULL. */
struct inode *inode_by_node(struct fence *f, uint64_t node);
/* For callers without a reference of the kernel's: they own the reference that is returned. */
struct inode *inode_ref_by_node(struct fence *f, uint64_t node);

/* [locked] A new inode without names. The caller owns one reference. */
struct inode *inode_new(struct fence *f, mode_t mode, uint64_t ino, unsigned flags);

void inode_ref(struct inode *inode);                           /* [locked] */
struct inode *inode_dup(struct fence *f, struct inode *inode); /* a reference, from outside the lock */
void inode_unref_locked(struct fence *f, struct inode *inode);
void inode_unref(struct fence *f, struct inode *inode);     /* NULL is fine */
void inode_looked_up(struct fence *f, struct inode *inode); /* [locked] counts one more reference of the kernel */
void inode_forget(struct fence *f, struct inode *inode, uint64_t count);

/* References to inodes, to be used outside the lock. */
struct inode_list {
    struct inode **items; /* owned */
    size_t count, cap;
};

void inode_list_add(struct inode_list *list, struct inode *inode); /* [locked] */
void inode_list_done(struct fence *f, struct inode_list *list);

/* [locked] Gives up its node id unless the kernel knows it, and assigns one again. */
void inode_release_node(struct fence *f, struct inode *inode);
void inode_assign_node(struct fence *f, struct inode *inode);

/* [locked] Computes its level again, after its names or their states changed. */
void inode_update_level(struct inode *inode);

/* [locked] Frees it if nothing needs it any more, with the entries and directories that only it kept. */
void inode_release(struct fence *f, struct inode *inode);

/* The hash used for inode numbers and buckets. */
uint64_t inode_hash(uint64_t seed, const char *bytes, size_t len);

/* [locked] Returns NULL if there is none. `len` is at most NAME_MAX. */
struct entry *entry_find(const struct inode *dir, const char *name, size_t len);

/* [locked] The entry after `entry` in a walk over all of them, NULL being before the first and after the last. `entry` may be
 * freed once the next one is known. */
static inline struct entry *entry_next(const struct inode *dir, const struct entry *entry)
{
    return (struct entry *) (void *) hash_table_next(&dir->dir->entries, entry ? &entry->link : NULL);
}

/* The inode of a name, if it is loaded: a reference, or NULL. From outside the lock. */
struct inode *entry_dup_inode(struct fence *f, const struct inode *dir, const char *name);

/* [locked] Takes ownership of the state. There must be no entry of that name yet. */
struct entry *entry_add(struct inode *dir, const char *name, size_t len, struct match_state *take_match, uint64_t ino);

void entry_bind(struct entry *entry, struct inode *inode);    /* [locked] gives the inode this name */
void entry_unbind(struct fence *f, struct entry *entry);      /* [locked] removes the name, maybe the last, from its inode */
void entry_free_unused(struct fence *f, struct entry *entry); /* [locked] frees an entry that records nothing any more */
void entry_move(struct fence *f, struct entry *entry, struct inode *dir, const char *name, size_t len,
                struct entry **ret_entry); /* [locked] frees the old entry */

/* [locked] Adds "a/b/c" to `out`, nothing for the root. Returns false if a directory above has no name any more. */
bool inode_add_path(const struct inode *inode, struct buf *out);

/* The same for a name in a directory, without the lock. `out` is emptied first. */
void tree_path_of(struct fence *f, const struct inode *dir, const char *name, struct buf *out);

/* Returns a reference to the state of a directory, for stepping; NULL if it has no name. */
struct match_state *inode_dup_match_state(struct fence *f, const struct inode *dir);

/* The current place of a file or directory. -ESTALE for the root and for an inode without a name. */
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

/* [locked] Forgets every name below a directory that is gone. Loaded inodes live on without a name. */
void tree_purge_below(struct fence *f, struct inode *dir);

/* [locked] Detaches the entry from its inode, and everything below it. An open file is kept. The entry stays. */
void tree_detach(struct fence *f, struct entry *entry);

/* Whether a file has other names than one; NULL is fine. */
bool inode_has_several_names(struct fence *f, const struct inode *inode);

/* [locked] Removes an inode from the list of those without a name. */
void inode_remove_dead(struct fence *f, struct inode *inode);

/* [locked] For an inode that is about to get a name again. */
void tree_revive(struct fence *f, struct inode *inode);

/* [locked] Computes the entry's match state again; its parent's must be right already. */
void entry_update_match(struct fence *f, struct entry *entry);
