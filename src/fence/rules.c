#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/handle.h"
#include "fence/hidden_link.h"
#include "fence/inode.h"
#include "fence/invalidate.h"
#include "fence/merge.h"
#include "fence/passage.h"

/*
 * Swapping rules on a running mount.
 *
 * Behind the closed gate every path in memory gets its state among the new rules, which hold from the next operation on. Then
 * the gate opens, since a client may have a directory locked in the kernel while it waits at the gate, and the kernel is
 * notified: names first, because a name decides which inode is reached, then pages and attributes of every inode whose level
 * changed, and the listings of all directories. Only after that the call returns.
 */
struct rules_swap {
    int64_t now_ns;
    struct inode_list changed; /* the kernel must drop these */
    struct inode_list hidden;  /* directories that may be passages now */
};

/* It may list other names now. */
static void refresh_listing(struct dir *dir, int64_t now_ns)
{
    dir->version++;
    dir->names_stamp = 0;
    dir->mtime_ns = dir->ctime_ns = now_ns;
}

static void note_swapped_inode(struct rules_swap *swap, struct inode *inode, uint8_t before)
{
    uint8_t after = atomic_load(&inode->level);

    if (inode->dir) {
        refresh_listing(inode->dir, swap->now_ns);
        inode_clear(inode, INODE_PASSAGE);
        if (required_level_check(POLICY_OP_LOOKUP, (enum level) after, false) < 0)
            inode_list_add(&swap->hidden, inode);
    }
    if (inode->dir || before != after || inode_has(inode, INODE_MULTILINK))
        inode_list_add(&swap->changed, inode);
}

static void swap_entry(struct fence *f, struct entry *e, void *cookie)
{
    uint8_t before = e->inode ? atomic_load(&e->inode->level) : 0;

    entry_update_match(f, e);
    if (e->inode)
        note_swapped_inode(cookie, e->inode, before);
}

static struct ruleset *swap_in_memory(struct fence *f, struct ruleset *rules, struct rules_swap *swap)
{
    struct ruleset *old = f->rules;

    f->rules = ruleset_ref(rules);
    passages_forget(f);
    hidden_links_forget(f);
    tree_lock(f);
    refresh_listing(f->root->dir, swap->now_ns);
    inode_list_add(&swap->changed, f->root);
    tree_each_below(f, f->root, swap_entry, swap);
    for (size_t i = 0; i < f->dead_count; i++) {
        struct inode *inode = f->dead[i];
        autofree char *path = xprintf("/%s", inode->last_path);
        uint8_t before = atomic_load(&inode->level);

        atomic_store(&inode->level, (uint8_t) ruleset_level_of(f->rules, path));
        note_swapped_inode(swap, inode, before);
    }
    tree_unlock(f);
    /* A file with several names is opened again, which checks whether one of them is hidden now. */
    for (size_t i = 0; i < swap->changed.count; i++) {
        if (inode_has(swap->changed.items[i], INODE_MULTILINK))
            handle_evict(f, swap->changed.items[i], LAYER_BASE);
    }
    for (size_t i = 0; i < swap->hidden.count; i++)
        passage_shows(f, swap->hidden.items[i]);
    return old;
}

/* Before Linux 6.16 names cannot be expired all at once. Those that we know are dropped one by one; directories only expire,
 * because dropping one would break getcwd() for processes in it. Negative entries of hidden names expire by themselves in a
 * second. */
static void forget_names_one_by_one(struct fence *f, const struct inode_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct inode_location where;
        if (inode_locate(f, list->items[i], &where) < 0)
            continue;
        notify_entry(f, where.parent, where.name, inode_is_dir(list->items[i]));
        inode_location_done(f, &where);
    }
}

int fence_set_rules(struct fence *f, struct ruleset *rules)
{
    struct rules_swap swap = { .now_ns = clock_wall_ns() };
    struct ruleset *old;

    /* The kernel reads files that are open or mapped without asking us, and that cannot be undone. */
    if (f->passthrough)
        return -EOPNOTSUPP;
    pthread_rwlock_wrlock(&f->gate);
    old = swap_in_memory(f, rules, &swap);
    pthread_rwlock_unlock(&f->gate);
    if (notify_all_names(f) < 0)
        forget_names_one_by_one(f, &swap.changed);
    for (size_t i = 0; i < swap.changed.count; i++)
        notify_pages(f, swap.changed.items[i]);
    /* Last, because it waits for clients. */
    for (size_t i = 0; i < swap.changed.count; i++) {
        if (inode_is_dir(swap.changed.items[i]))
            notify_listing(f, swap.changed.items[i]);
    }
    inode_list_done(f, &swap.changed);
    inode_list_done(f, &swap.hidden);
    ruleset_unref(old);
    return 0;
}
