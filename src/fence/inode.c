#include "fence/inode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/handle.h"
#include "fence/layer.h"
#include "fence/merge.h"
#include "fence/quota.h"
#include "fence/unwatched.h"

/*
 * What keeps an inode in memory.
 *
 * The kernel counts its own references (`lookups`): +1 for each entry that we hand out, minus what FORGET says. We count ours
 * (`refs`): one for each operation that holds the inode beyond its request, and one for ever on the root. A directory also
 * stays while it has entries. When all three are zero the inode is freed. Its entry remains if the delta has something under
 * that name (ENTRY_UP, ENTRY_WHITEOUT): entries are our record of what the delta holds, so a path that was never written costs
 * no look at the delta. Other entries go with their inode.
 *
 * st_ino is `ino`. It is made from the path under which a file was found, so it is the same after a copy-up, after a FORGET and
 * at the next mount, and is independent of the numbers of the backing files, which would reveal hidden files allocated between
 * them. What is created gets a number from a counter: one made from the path could equal that of a file that was renamed away
 * from there. If the number does not follow from the path, ino_map.c records it for the next mount.
 *
 * The node id that the kernel uses is visible too (name_to_handle_at), so it must not be an address of ours: it is `ino`, or
 * the next free one after it if two inodes have the same number (a file of a live base that was replaced while it was open). A
 * hidden directory that is searched when something in it changes loses its name to a new inode (revalidate.c), and which of the
 * two the kernel gets would show. So a directory that dies before the kernel knows it leaves its node id to the next one.
 *
 * A file without a name (INODE_DEAD) may still be open; then the kernel does not forget it. It keeps its last path, for rules
 * that are swapped meanwhile, and a pinned handle, because nothing else leads to its content.
 */

static uint64_t inode_hash_mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ULL;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ULL;
    return h ^ h >> 32;
}

uint64_t inode_hash(uint64_t seed, const char *bytes, size_t len)
{
    uint64_t h = inode_hash_mix(seed ^ len * 0x9e3779b97f4a7c15ULL);

    while (len >= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        h = inode_hash_mix(h ^ word);
        bytes += 8;
        len -= 8;
    }
    uint64_t rest = 0;
    memcpy(&rest, bytes, len);
    return inode_hash_mix(h ^ rest);
}

/* The top bit distinguishes the two kinds of numbers. 0 and 1 have special meanings elsewhere. */
uint64_t inode_number_of(uint64_t parent_ino, const char *name, size_t len)
{
    uint64_t ino = inode_hash(parent_ino, name, len) >> 1;

    return ino > 1 ? ino : ino + 2;
}

uint64_t inode_number_new(struct fence *f)
{
    return (1ULL << 63 | inode_hash_mix(++f->ino_counter)) & ~(1ULL << 62);
}

void tree_lock(struct fence *f)
{
    pthread_mutex_lock(&f->names);
}

static void give_back(struct quota *quota, uint64_t bytes)
{
    quota_release(quota, bytes, 0);
    quota_add_dead(quota, -(int64_t) bytes);
}

/* The last process that could read a removed file is gone, so its bytes are free. */
static void give_back_dead(struct fence *f, struct inode *inode)
{
    struct handle *h = handle_get_cached(f, inode, LAYER_DELTA);
    char orphan[32];
    struct stat st;

    if (inode_has(inode, INODE_ORPHAN)) {
        layer_orphan_name(inode, orphan);
        if (fstatat(f->work_fd, orphan, &st, AT_SYMLINK_NOFOLLOW) == 0)
            give_back(&f->quota, quota_bytes_of(&st));
        unlinkat(f->work_fd, orphan, 0);
    } else if (h && !inode->dir && fstat(h->fd, &st) == 0) {
        give_back(&f->quota, quota_bytes_of(&st));
    }
    handle_put(f, h);
}

static void inode_destroy(struct fence *f, struct inode *inode)
{
    if (inode_has(inode, INODE_DEAD))
        give_back_dead(f, inode);
    handle_evict_all(f, inode);
    unwatched_remove(f, inode);
    if (inode->dir) {
        dir_listing_unref(inode->dir->listing);
        hash_table_done(&inode->dir->entries);
        free(inode->dir);
    }
    free(inode);
}

void tree_unlock(struct fence *f)
{
    struct inode *to_free = f->to_free;

    f->to_free = NULL;
    pthread_mutex_unlock(&f->names);
    while (to_free) {
        struct inode *next = to_free->next_to_free;
        inode_destroy(f, to_free);
        to_free = next;
    }
}

int tree_init(struct fence *f)
{
    struct stat st;

    if (fstat(f->data_fd, &st) < 0)
        return -errno;
    tree_lock(f);
    f->root = inode_new(f, st.st_mode, 1, INODE_BASE | INODE_UP);
    f->root->dir->mtime_ns = f->root->dir->ctime_ns = clock_ns_of_timespec(st.st_mtim);
    inode_update_level(f->root);
    tree_unlock(f);
    return 0;
}

static void add_node(struct fence *f, struct inode *inode);

struct inode *inode_new(struct fence *f, mode_t mode, uint64_t ino, unsigned flags)
{
    struct inode *inode = xnew(struct inode);

    inode->ino = ino;
    inode->refs = 1;
    atomic_init(&inode->flags, (uint16_t) flags);
    /* sgid is shown for directories of the delta only. */
    atomic_init(&inode->mode, (uint16_t) (mode & (S_IFMT | (S_ISDIR(mode) && (flags & INODE_UP) ? 03777 : 01777))));
    if (S_ISDIR(mode)) {
        inode->dir = xnew(struct dir);
        inode->dir->atime_ns = inode->dir->mtime_ns = inode->dir->ctime_ns = f->version_ns;
    }
    add_node(f, inode);
    return inode;
}

void inode_ref(struct inode *inode)
{
    inode->refs++;
}

struct inode *inode_dup(struct fence *f, struct inode *inode)
{
    autolock(&f->names);
    inode_ref(inode);
    return inode;
}

void inode_list_add(struct inode_list *list, struct inode *inode)
{
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] = inode;
    inode_ref(inode);
}

void inode_list_done(struct fence *f, struct inode_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        inode_unref(f, list->items[i]);
    free(list->items);
    *list = (struct inode_list){ 0 };
}

/* The secret keeps processes inside from choosing names whose node ids are in one bucket. Different ids have different
 * hashes. */
static uint64_t hash_of_node(const struct fence *f, uint64_t node)
{
    return inode_hash_mix(node ^ f->hash_secret);
}

static struct inode *find_node(const struct fence *f, uint64_t node)
{
    struct hash_link *link = hash_table_first(&f->nodes, hash_of_node(f, node));

    return link ? hash_link_in(link, struct inode, by_node) : NULL;
}

struct inode *inode_by_node(struct fence *f, uint64_t node)
{
    autolock(&f->names);
    return find_node(f, node);
}

struct inode *inode_ref_by_node(struct fence *f, uint64_t node)
{
    struct inode *inode;

    autolock(&f->names);
    inode = find_node(f, node);
    if (inode)
        inode_ref(inode);
    return inode;
}

static void add_node(struct fence *f, struct inode *inode)
{
    for (inode->node = inode->ino; find_node(f, inode->node); inode->node++)
        continue;
    hash_table_add(&f->nodes, &inode->by_node, hash_of_node(f, inode->node));
}

void inode_release_node(struct fence *f, struct inode *inode)
{
    if (inode->lookups > 0 || inode_has(inode, INODE_NO_NODE))
        return;
    hash_table_remove(&f->nodes, &inode->by_node);
    inode_set(inode, INODE_NO_NODE);
}

void inode_assign_node(struct fence *f, struct inode *inode)
{
    if (!inode_has(inode, INODE_NO_NODE))
        return;
    inode_clear(inode, INODE_NO_NODE);
    add_node(f, inode);
}

void inode_looked_up(struct fence *f, struct inode *inode)
{
    inode_assign_node(f, inode);
    inode->lookups++;
}

/* Returns true for a directory of the delta whose ctime is stored nowhere else: see attr_touch_dir_ctime(). The quota limits
 * how many there are. */
static bool keeps_ctime(const struct inode *inode)
{
    return inode_has(inode, INODE_UP) && !inode_has(inode, INODE_DEAD) && inode->dir->ctime_ns > inode->dir->mtime_ns;
}

/* Queues an inode that nothing needs for destruction and, with it, entries and directories that only it kept. */
void inode_release(struct fence *f, struct inode *inode)
{
    while (inode && inode->lookups == 0 && inode->refs == 0 && !inode_has(inode, INODE_FREED | INODE_LINKED)) {
        struct inode *parent = NULL;

        if (inode->dir && (inode->dir->entries.count > 0 || keeps_ctime(inode)))
            return;
        if (inode_has(inode, INODE_DEAD)) {
            inode_remove_dead(f, inode);
            free(inode->last_path);
        } else if (inode->names) {
            struct entry *entry = inode->names;
            entry->inode = NULL;
            parent = entry->parent;
            if (entry->flags == 0) {
                inode_ref(parent);
                entry_free_unused(f, entry);
                parent->refs--;
            } else {
                parent = NULL;
            }
        }
        inode_set(inode, INODE_FREED);
        if (!inode_has(inode, INODE_NO_NODE))
            hash_table_remove(&f->nodes, &inode->by_node);
        inode->next_to_free = f->to_free;
        f->to_free = inode;
        inode = parent;
    }
}

void inode_unref_locked(struct fence *f, struct inode *inode)
{
    if (!inode)
        return;
    inode->refs--;
    inode_release(f, inode);
}

void inode_unref(struct fence *f, struct inode *inode)
{
    if (!inode)
        return;
    tree_lock(f);
    inode_unref_locked(f, inode);
    tree_unlock(f);
}

void inode_forget(struct fence *f, struct inode *inode, uint64_t count)
{
    tree_lock(f);
    inode->lookups -= count < inode->lookups ? count : inode->lookups;
    inode_release(f, inode);
    tree_unlock(f);
}

void inode_update_level(struct inode *inode)
{
    enum level level = LEVEL_WRITE;

    if (inode_has(inode, INODE_DEAD))
        return;
    for (const struct entry *e = inode->names; e; e = e->name_next) {
        if (match_state_level(e->match) < level)
            level = match_state_level(e->match);
    }
    atomic_store(&inode->level, (uint8_t) level);
}

bool inode_add_path(const struct inode *inode, struct buf *out)
{
    const struct entry *chain[DEPTH_MAX + 1];
    size_t count = 0;

    if (inode_has(inode, INODE_DEAD)) {
        buf_add_str(out, inode->last_path);
        return true;
    }
    for (const struct entry *e = inode->names; e; e = e->parent->names) {
        if (count > DEPTH_MAX || inode_has(e->parent, INODE_DEAD))
            return false;
        chain[count++] = e;
    }
    for (size_t i = count; i-- > 0;) {
        buf_add(out, chain[i]->name, chain[i]->len);
        if (i > 0)
            buf_add_char(out, '/');
    }
    return true;
}

void tree_path_of(struct fence *f, const struct inode *dir, const char *name, struct buf *out)
{
    buf_clear(out);
    tree_lock(f);
    inode_add_path(dir, out);
    tree_unlock(f);
    if (name && out->len > 0)
        buf_add_char(out, '/');
    if (name)
        buf_add_str(out, name);
}

struct match_state *inode_dup_match_state(struct fence *f, const struct inode *dir)
{
    struct match_state *match;

    if (dir == f->root)
        return match_state_ref(ruleset_root(f->rules));
    tree_lock(f);
    match = inode_has(dir, INODE_DEAD) ? NULL : match_state_ref(dir->names->match);
    tree_unlock(f);
    return match;
}

bool inode_has_several_names(struct fence *f, const struct inode *inode)
{
    autolock(&f->names);
    return inode && !inode_has(inode, INODE_DEAD) && inode->names && inode->names->name_next;
}

int inode_locate(struct fence *f, struct inode *inode, struct inode_location *ret)
{
    int r = -ESTALE;

    tree_lock(f);
    if (inode != f->root && !inode_has(inode, INODE_DEAD) && inode->names) {
        const struct entry *e = inode->names;
        memcpy(ret->name, e->name, (size_t) e->len + 1);
        ret->len = e->len;
        ret->parent = e->parent;
        inode_ref(ret->parent);
        r = 0;
    }
    tree_unlock(f);
    return r;
}

void inode_location_done(struct fence *f, struct inode_location *where)
{
    inode_unref(f, where->parent);
    where->parent = NULL;
}

/* DEPTH_MAX bounds the recursion. */
void tree_each_below(struct fence *f, struct inode *top, entry_fn fn, void *cookie)
{
    for (struct entry *e = entry_next(top, NULL); e; e = entry_next(top, e)) {
        fn(f, e, cookie);
        if (e->inode && e->inode->dir)
            tree_each_below(f, e->inode, fn, cookie);
    }
}

void tree_purge_below(struct fence *f, struct inode *dir)
{
    inode_ref(dir);
    for (struct entry *e = entry_next(dir, NULL), *next; e; e = next) {
        next = entry_next(dir, e);
        e->flags = 0;
        tree_detach(f, e);
        entry_free_unused(f, e);
    }
    inode_unref_locked(f, dir);
}

/* The reference keeps the inode from freeing the entry. */
void tree_detach(struct fence *f, struct entry *e)
{
    struct inode *inode = e->inode;

    if (!inode)
        return;
    inode_ref(inode);
    if (inode->dir)
        tree_purge_below(f, inode);
    else
        handle_pin(f, inode, LAYER_BASE);
    entry_unbind(f, e);
    inode_unref_locked(f, inode);
}

static void tree_free_below(struct fence *f, struct inode *inode)
{
    for (struct entry *e = inode->dir ? entry_next(inode, NULL) : NULL, *next; e; e = next) {
        struct inode *child = e->inode;
        next = entry_next(inode, e);
        if (child && child->names == e && !e->name_next) {
            tree_free_below(f, child);
            inode_destroy(f, child);
        } else if (child) {
            /* One of several names: the last of them frees the inode. */
            struct entry **at = &child->names;
            while (*at != e)
                at = &(*at)->name_next;
            *at = e->name_next;
        }
        match_state_unref(e->match);
        free(e);
    }
}

/* Frees everything, referenced or not: no request is under way any more. */
void tree_done(struct fence *f)
{
    if (!f->root)
        return;
    for (size_t i = 0; i < f->dead_count; i++) {
        free(f->dead[i]->last_path);
        inode_destroy(f, f->dead[i]);
    }
    free(f->dead);
    hash_table_done(&f->nodes);
    tree_free_below(f, f->root);
    inode_destroy(f, f->root);
    f->root = NULL;
}
