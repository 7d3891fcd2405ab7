#include "fence/blind.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/invalidate.h"
#include "fence/layer.h"
#include "fence/merge.h"
#include "fence/passage.h"
#include "fence/patrol.h"
#include "fence/renew.h"
#include "fence/seen.h"
#include "fence/spelling.h"

/*
 * What the kernel may hold of a blind directory, and how it comes to hear of a change:
 *
 *   names, attributes      for blind_round_ms. When it asks again, the name is compared with the base (blind_check_name): what is
 *                          another file is cut from its inode, as an event of a watch would have done.
 *   pages of a file        for as long as it likes, but a file with other content is told of only when its pages are dropped:
 *                          INODE_STALE makes the answer wait for that (reply.c). With new attributes over old pages a reader
 *                          would find the end of a page filled with zeros. Who keeps a file open and reads what is cached asks
 *                          nothing at all, so for some rounds the patrol compares each file of which content was told, and in
 *                          the end drops its pages: then whoever still reads asks.
 *   a listing              is dropped by the patrol a second after it was told, whether something changed or not: whether it
 *                          did may depend on hidden names.
 *   times of a directory   move when the visible names in it are others than they were: its own time in the base would tell of
 *                          hidden ones. Compared by a digest, at most four times in a round.
 *   a passage              "nothing visible below" is forgotten as often.
 *
 * A directory may be moved with all that is in it while a process stands there and asks for nothing above it. So each check
 * of a directory begins with those above it: what has moved out of its place is not shown any longer.
 */
#define TIMEOUT_S 86400.0
#define CHECKS_IN_A_ROUND 4

static int64_t now_ms(void)
{
    return clock_now_ns() / 1000000;
}

void blind_add(struct fence *f, struct inode *dir)
{
    if (!(atomic_fetch_or(&dir->flags, INODE_BLIND) & INODE_BLIND))
        atomic_fetch_add(&f->blind_dirs, 1);
}

void blind_remove(struct fence *f, struct inode *dir)
{
    if (atomic_fetch_and(&dir->flags, (uint16_t) ~INODE_BLIND) & INODE_BLIND)
        atomic_fetch_sub(&f->blind_dirs, 1);
}

/* ---- how long ---- */

double blind_name_timeout_s(struct fence *f, const struct inode *dir)
{
    return blind_any(f) && inode_has(dir, INODE_BLIND) ? (double) f->blind_round_ms / 1000 : TIMEOUT_S;
}

bool blind_is_within(struct fence *f, const struct inode *inode)
{
    bool is_in;

    if (inode == f->root)
        return false;
    tree_lock(f);
    is_in = !inode_has(inode, INODE_DEAD) && inode->names && inode_has(inode->names->parent, INODE_BLIND);
    tree_unlock(f);
    return is_in && inode_has(inode, INODE_BASE);
}

double blind_attr_timeout_s(struct fence *f, const struct inode *inode)
{
    if (!blind_any(f))
        return TIMEOUT_S;
    return inode_has(inode, INODE_BLIND) || blind_is_within(f, inode) ? (double) f->blind_round_ms / 1000 : TIMEOUT_S;
}

/* ---- comparing ---- */

/* Other content: reading goes on with a new descriptor, because a remote file system may serve an old one from its own cache. Of
 * what the patrol looks after there may be pages in the kernel; if it cannot be told whether they are old, they are for the patrol to
 * drop: an answer that waited for that does not count for the kernel, so there may be only one for each change. */
static void note_content(struct fence *f, struct inode *inode, const struct stat *st, unsigned differs)
{
    if (differs & SEEN_OTHER_CONTENT)
        handle_renew(f, inode, LAYER_BASE);
    tree_lock(f);
    bool is_patrolled = inode_has(inode, INODE_PATROLLED);
    if ((differs & SEEN_OTHER_CONTENT) && is_patrolled)
        inode_set(inode, INODE_STALE);
    if ((differs & ~(unsigned) SEEN_UNSETTLED) || !is_patrolled)
        atomic_store(&inode->seen, seen_of(st));
    tree_unlock(f);
}

static bool is_another(unsigned differs)
{
    return (differs & SEEN_OTHER_FILE) && (differs & SEEN_OTHER_CONTENT);
}

/* Some file systems number a file anew when nobody has used it for a while: one that is the same in all else is the same. */
static bool is_still(struct fence *f, struct inode *inode, const struct stat *st)
{
    unsigned differs = seen_differs(atomic_load(&inode->seen), st);

    if ((st->st_mode & S_IFMT) != (atomic_load(&inode->mode) & S_IFMT) || is_another(differs))
        return false;
    if (differs & SEEN_OTHER_FILE)
        handle_renew(f, inode, LAYER_BASE);
    if (differs && inode_is_dir(inode)) {
        atomic_store(&inode->mode, (uint16_t) (st->st_mode & (S_IFMT | 01777)));
        atomic_store(&inode->seen, seen_of(st));
    } else if (differs) {
        note_content(f, inode, st, differs);
    }
    return true;
}

static void check_dir(struct fence *f, struct inode *dir);

/* A directory that both layers have loses its part of the base, or gets another. */
static void check_merged(struct fence *f, struct inode *dir, const char *name, struct inode *child)
{
    struct stat st;
    bool has = layer_base_has(f, dir, name, &st) == 1 && S_ISDIR(st.st_mode);
    unsigned differs = has ? seen_differs(atomic_load(&child->seen), &st) : SEEN_OTHER_FILE | SEEN_OTHER_CONTENT;

    if (has != inode_has(child, INODE_BASE) || is_another(differs))
        renew_merged(f, dir, child, name);
    else if (has)
        atomic_store(&child->seen, seen_of(&st));
}

/* The directory itself has been checked. */
static bool compare_name(struct fence *f, struct inode *dir, const char *name, struct inode *inode)
{
    struct stat st;
    int r;

    if (inode_has(dir, INODE_DEAD))
        return false;
    if (!inode_has(dir, INODE_BLIND) || !inode_has(dir, INODE_BASE))
        return true;
    if (inode_has(inode, INODE_UP)) {
        if (inode_is_dir(inode))
            check_merged(f, dir, name, inode);
        return true;
    }
    r = layer_stat(f, dir, LAYER_BASE, name, &st);
    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        return true;
    if (r == 0 && is_still(f, inode, &st))
        return true;
    enum sight sight = renew_sight_of(f, dir, name);
    renew_cut(f, dir, name, inode);
    if (sight == SIGHT_FULL)
        renew_touch(f, dir);
    else
        passages_forget(f);
    return false;
}

bool blind_check_name(struct fence *f, struct inode *dir, const char *name, struct inode *inode)
{
    if (!blind_any(f))
        return true;
    check_dir(f, dir);
    return compare_name(f, dir, name, inode);
}

struct digest {
    struct fence *f;
    struct place *at; /* borrowed */
    uint64_t sum;
};

static int add_to_digest(const char *name, uint8_t type, void *cookie)
{
    struct digest *d = cookie;
    size_t len = strlen(name);
    autoptr(place) place = ruleset_step(d->f->rules, d->at, name, len);

    if (need_check(NEED_LIST, place_level(place), false) == 0)
        d->sum += inode_hash(type, name, len);
    return 0;
}

static int stat_base_dir(struct fence *f, struct inode *dir, struct stat *ret_st)
{
    struct handle *h;
    int r = handle_get(f, dir, LAYER_BASE, &h);

    if (r < 0)
        return r;
    r = fstat(h->fd, ret_st) < 0 ? -errno : 0;
    handle_put(f, h);
    return r;
}

/* Names that the delta covers count as well: if they did not, covering one would look like a change of the base. */
static void compare_names(struct fence *f, struct inode *dir)
{
    autoptr(place) at = inode_dup_place(f, dir);
    struct digest digest = { .f = f, .at = at };
    struct dir *d = dir->dir;
    struct stat st;
    bool changed;

    if (!at || !inode_has(dir, INODE_BASE) || !renew_is_shown(f, dir) || stat_base_dir(f, dir, &st) < 0)
        return;
    tree_lock(f);
    bool is_known = d->names_seen && !seen_differs(d->names_seen, &st);
    tree_unlock(f);
    if (!is_known)
        spelling_doubt(f, dir);
    if (is_known || merge_each_base(f, dir, add_to_digest, &digest) < 0)
        return;
    tree_lock(f);
    changed = d->names_seen && d->names_digest != digest.sum;
    d->names_digest = digest.sum;
    d->names_seen = seen_of(&st);
    tree_unlock(f);
    if (changed)
        renew_touch(f, dir);
}

static void forget_absent_passages(struct fence *f)
{
    int64_t now = now_ms(), last = atomic_load(&f->blind_ms);

    if (now - last >= f->blind_round_ms / CHECKS_IN_A_ROUND && atomic_compare_exchange_strong(&f->blind_ms, &last, now))
        passages_forget_absent(f);
}

/* DEPTH_MAX bounds the recursion. */
static void check_dir(struct fence *f, struct inode *dir)
{
    int64_t now = now_ms(), last = atomic_load(&dir->dir->checked_ms);
    struct whereabouts where;

    if (now - last < f->blind_round_ms / CHECKS_IN_A_ROUND ||
        !atomic_compare_exchange_strong(&dir->dir->checked_ms, &last, now))
        return;
    forget_absent_passages(f);
    if (inode_where(f, dir, &where) == 0) {
        check_dir(f, where.parent);
        compare_name(f, where.parent, where.name, dir);
        whereabouts_done(f, &where);
    }
    if (inode_has(dir, INODE_DEAD) || !inode_has(dir, INODE_BLIND))
        return;
    compare_names(f, dir);
    patrol_charge(f->patrol, dir);
}

void blind_check(struct fence *f, struct inode *inode)
{
    struct whereabouts where;

    if (!blind_any(f))
        return;
    if (inode_is_dir(inode)) {
        check_dir(f, inode);
    } else if (blind_is_within(f, inode) && inode_where(f, inode, &where) == 0) {
        blind_check_name(f, where.parent, where.name, inode);
        whereabouts_done(f, &where);
    }
}

void blind_settle(struct fence *f, struct inode *inode)
{
    struct stat st;

    if (seen_is_settled(atomic_load(&inode->seen)) || layer_stat_inode(f, inode, &st) < 0)
        return;
    handle_renew(f, inode, LAYER_BASE);
    tree_lock(f);
    atomic_store(&inode->seen, seen_of(&st));
    inode_set(inode, INODE_STALE);
    tree_unlock(f);
}

void blind_will_serve(struct fence *f, struct inode *inode)
{
    if (blind_any(f) && !inode_has(inode, INODE_PATROLLED))
        blind_check(f, inode);
}

void blind_served(struct fence *f, struct inode *inode)
{
    if (blind_any(f) && (inode_is_dir(inode) ? inode_has(inode, INODE_BLIND) : blind_is_within(f, inode)))
        patrol_charge(f->patrol, inode);
}

void blind_check_all(struct fence *f, struct inode *dir)
{
    autodone(buf) struct buf names = BUF_EMPTY;

    tree_lock(f);
    for (uint32_t i = 0; i < dir->dir->bucket_count; i++) {
        for (const struct entry *e = dir->dir->buckets[i]; e; e = e->bucket_next) {
            if (e->inode)
                buf_add(&names, e->name, (size_t) e->len + 1);
        }
    }
    tree_unlock(f);
    for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1) {
        const char *name = names.data + at;
        struct inode *child = NULL;
        tree_lock(f);
        const struct entry *e = entry_find(dir, name, strlen(name));
        if (e && e->inode) {
            child = e->inode;
            inode_ref(child);
        }
        tree_unlock(f);
        if (child && compare_name(f, dir, name, child) && inode_has(child, INODE_STALE))
            invalidate_soon(f, child);
        inode_unref(f, child);
    }
    compare_names(f, dir);
}
