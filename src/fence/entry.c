#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fence/inode.h"

/* Names in directories: finding, binding to inodes, moving. All of it [locked], except entry_dup_inode(). */

struct entry *entry_find(const struct inode *inode, const char *name, size_t len)
{
    struct hash_link *link = NULL;
    struct entry *e;

    if (inode->dir->entries.count > 0)
        link = hash_table_first(&inode->dir->entries, inode_hash(0, name, len));
    for (; link; link = hash_link_next(link)) {
        e = hash_link_in(link, struct entry, link);
        if (e->len == len && memcmp(e->name, name, len) == 0)
            return e;
    }
    return NULL;
}

struct inode *entry_dup_inode(struct fence *f, const struct inode *dir, const char *name)
{
    autolock(&f->names);
    struct entry *e = entry_find(dir, name, strlen(name));

    if (!e || !e->inode)
        return NULL;
    inode_ref(e->inode);
    return e->inode;
}

struct entry *entry_add(struct inode *parent, const char *name, size_t len, struct match_state *take_match, uint64_t ino)
{
    struct entry *e = xalloc(sizeof(*e) + len + 1);

    e->len = (uint8_t) len;
    memcpy(e->name, name, len);
    e->parent = parent;
    e->match = take_match;
    e->ino = ino;
    hash_table_add(&parent->dir->entries, &e->link, inode_hash(0, name, len));
    return e;
}

/* The directory may thereby lose its last reason to stay in memory. */
void entry_free_unused(struct fence *f, struct entry *entry)
{
    struct inode *parent = entry->parent;

    if (entry->flags != 0 || entry->inode)
        return;
    hash_table_remove(&parent->dir->entries, &entry->link);
    match_state_unref(entry->match);
    free(entry);
    inode_release(f, parent);
}

void entry_bind(struct entry *entry, struct inode *inode)
{
    entry->inode = inode;
    entry->name_next = inode->names;
    inode->names = entry;
    inode->depth = (uint16_t) (entry->parent->depth + 1);
    inode_update_level(inode);
}

/* Marks an inode without names as dead. Its last path is kept as text: rules may change while the file is open. */
static void entry_mark_dead(struct fence *f, struct inode *inode, struct entry *last)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    inode->names = last;
    inode_add_path(inode, &path);
    inode_set(inode, INODE_DEAD);
    inode->last_path = buf_dup_take(&path);
    vec_room(&f->dead, &f->dead_cap, f->dead_count);
    inode->log_mark = (uint32_t) f->dead_count;
    f->dead[f->dead_count++] = inode;
    if (inode->dir) /* an open file may have a name in work that is made of its node id */
        inode_release_node(f, inode);
}

void inode_remove_dead(struct fence *f, struct inode *inode)
{
    struct inode *last = f->dead[--f->dead_count];

    f->dead[inode->log_mark] = last;
    last->log_mark = inode->log_mark;
}

void entry_unbind(struct fence *f, struct entry *entry)
{
    struct inode *inode = entry->inode;
    struct entry **at;

    if (!inode)
        return;
    for (at = &inode->names; *at != entry; at = &(*at)->name_next)
        continue;
    *at = entry->name_next;
    entry->name_next = NULL;
    if (!inode->names)
        entry_mark_dead(f, inode, entry);
    else
        inode_update_level(inode);
    entry->inode = NULL;
    if (inode_has(inode, INODE_DEAD) || !inode->names->name_next)
        inode_clear(inode, INODE_LINKED);
    inode_release(f, inode);
}

void entry_update_match(struct fence *f, struct entry *e)
{
    const struct match_state *at = e->parent == f->root ? ruleset_root(f->rules) : e->parent->names->match;
    struct match_state *match = ruleset_step(f->rules, at, e->name, e->len);

    match_state_unref(e->match);
    e->match = match;
    if (e->inode) {
        e->inode->depth = (uint16_t) (e->parent->depth + 1);
        inode_update_level(e->inode);
    }
}

void tree_revive(struct fence *f, struct inode *inode)
{
    if (!inode_has(inode, INODE_DEAD))
        return;
    inode_remove_dead(f, inode);
    free(inode->last_path);
    inode->last_path = NULL;
    inode->names = NULL;
    inode_clear(inode, INODE_DEAD);
    inode_assign_node(f, inode);
}

/* The name is stored in the entry, so moving makes a new entry. The caller sets its match state. */
void entry_move(struct fence *f, struct entry *entry, struct inode *dir, const char *name, size_t len, struct entry **ret_entry)
{
    struct entry *moved = entry_add(dir, name, len, match_state_ref(entry->match), entry->ino);
    struct inode *inode = entry->inode;

    moved->flags = entry->flags & ENTRY_UP;
    if (inode) {
        inode_ref(inode);
        entry_bind(moved, inode);
        entry_unbind(f, entry);
        inode_unref_locked(f, inode);
    }
    entry->flags &= (uint8_t) ~ENTRY_UP;
    *ret_entry = moved;
}
