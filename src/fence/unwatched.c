#include "fence/unwatched.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "fence/base_stamp.h"
#include "fence/casefold.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/invalidate.h"
#include "fence/layer.h"
#include "fence/merge.h"
#include "fence/passage.h"
#include "fence/revalidate.h"

/*
 * What the kernel may cache of an unwatched directory, and how it learns of a change:
 *
 *   names, attributes      for unwatched_round_ms. When it looks again, the name is compared with the base
 *                          (unwatched_check_name): a name of another file is detached from its inode, as by an event.
 *   pages of a file        without limit, but new attributes are sent only after the pages are dropped: INODE_STALE delays the
 *                          answer (reply.c). With new attributes over old pages a reader would see the end of a page filled
 *                          with zeros. A process that keeps a file open and reads cached pages causes no request, so for some
 *                          rounds the poller compares each file that was read, and finally drops its pages: readers ask again.
 *   a listing              the poller drops it after a second whether or not something changed: whether it did may depend on
 *                          hidden names.
 *   times of a directory   move when its visible names have changed: its own time in the base would reveal changes of hidden
 *                          ones. Compared by a digest, at most four times in a round.
 *   a passage              "nothing visible below" is forgotten as often.
 *
 * A directory may be moved with all that is in it while a process works there and looks up nothing above it. So each check of a
 * directory begins with those above it: what has moved away is not shown any longer.
 */
#define TIMEOUT_S 86400.0
#define CHECKS_IN_A_ROUND 4

static int64_t unwatched_now_ms(void)
{
    return clock_now_ns() / 1000000;
}

void unwatched_add(struct fence *f, struct inode *dir)
{
    if (!(atomic_fetch_or(&dir->flags, INODE_UNWATCHED) & INODE_UNWATCHED))
        atomic_fetch_add(&f->unwatched_dirs, 1);
}

void unwatched_remove(struct fence *f, struct inode *dir)
{
    if (atomic_fetch_and(&dir->flags, (uint16_t) ~INODE_UNWATCHED) & INODE_UNWATCHED)
        atomic_fetch_sub(&f->unwatched_dirs, 1);
}

/* ---- timeouts ---- */

double unwatched_name_timeout_s(struct fence *f, const struct inode *dir)
{
    return unwatched_any(f) && inode_has(dir, INODE_UNWATCHED) ? (double) f->unwatched_round_ms / 1000 : TIMEOUT_S;
}

bool unwatched_is_within(struct fence *f, const struct inode *inode)
{
    bool is_in;

    if (inode == f->root)
        return false;
    tree_lock(f);
    is_in = !inode_has(inode, INODE_DEAD) && inode->names && inode_has(inode->names->parent, INODE_UNWATCHED);
    tree_unlock(f);
    return is_in && inode_has(inode, INODE_BASE);
}

double unwatched_attr_timeout_s(struct fence *f, const struct inode *inode)
{
    if (!unwatched_any(f))
        return TIMEOUT_S;
    return inode_has(inode, INODE_UNWATCHED) || unwatched_is_within(f, inode) ? (double) f->unwatched_round_ms / 1000
                                                                              : TIMEOUT_S;
}

/* ---- comparing ---- */

/* For other content reading needs a new descriptor, because a remote file system may serve an old one from its own cache. Of a
 * file that the poller visits the kernel may have pages. If it is unknown whether they are old, the poller drops them: the
 * kernel does not cache an answer that waited for that, so there may be only one such answer per change. */
static void unwatched_note_content(struct fence *f, struct inode *inode, const struct stat *st, unsigned differs)
{
    if (differs & BASE_STAMP_OTHER_CONTENT)
        handle_reopen(f, inode, LAYER_BASE);
    tree_lock(f);
    bool is_polled = inode_has(inode, INODE_POLLED);
    if ((differs & BASE_STAMP_OTHER_CONTENT) && is_polled)
        inode_set(inode, INODE_STALE);
    if ((differs & ~(unsigned) BASE_STAMP_UNSETTLED) || !is_polled)
        atomic_store(&inode->base_stamp, base_stamp_of(st));
    tree_unlock(f);
}

static bool stamp_is_of_another(unsigned differs)
{
    return (differs & BASE_STAMP_OTHER_FILE) && (differs & BASE_STAMP_OTHER_CONTENT);
}

/* Some file systems give a file a new number after a while without use: one that is equal in all else counts as the same. */
static bool inode_is_unchanged(struct fence *f, struct inode *inode, const struct stat *st)
{
    unsigned differs = base_stamp_differs(atomic_load(&inode->base_stamp), st);

    if ((st->st_mode & S_IFMT) != (atomic_load(&inode->mode) & S_IFMT) || stamp_is_of_another(differs))
        return false;
    if (differs & BASE_STAMP_OTHER_FILE)
        handle_reopen(f, inode, LAYER_BASE);
    if (differs && inode_is_dir(inode)) {
        atomic_store(&inode->mode, (uint16_t) (st->st_mode & (S_IFMT | 01777)));
        atomic_store(&inode->base_stamp, base_stamp_of(st));
    } else if (differs) {
        unwatched_note_content(f, inode, st, differs);
    }
    return true;
}

static void unwatched_check_dir(struct fence *f, struct inode *dir);

/* The base's part of a directory that both layers have may have been removed or replaced. */
static void unwatched_check_merged(struct fence *f, struct inode *dir, const char *name, struct inode *child)
{
    struct stat st;
    bool has = layer_base_has(f, dir, name, &st) == 1 && S_ISDIR(st.st_mode);
    unsigned differs =
        has ? base_stamp_differs(atomic_load(&child->base_stamp), &st) : BASE_STAMP_OTHER_FILE | BASE_STAMP_OTHER_CONTENT;

    if (has != inode_has(child, INODE_BASE) || stamp_is_of_another(differs))
        revalidate_merged(f, dir, child, name);
    else if (has)
        atomic_store(&child->base_stamp, base_stamp_of(&st));
}

/* The directory itself has been checked. */
static bool unwatched_compare_name(struct fence *f, struct inode *dir, const char *name, struct inode *inode)
{
    struct stat st;
    int r;

    if (inode_has(dir, INODE_DEAD))
        return false;
    if (!inode_has(dir, INODE_UNWATCHED) || !inode_has(dir, INODE_BASE))
        return true;
    if (inode_has(inode, INODE_UP)) {
        if (inode_is_dir(inode))
            unwatched_check_merged(f, dir, name, inode);
        return true;
    }
    r = layer_stat(f, dir, LAYER_BASE, name, &st);
    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        return true;
    if (r == 0 && inode_is_unchanged(f, inode, &st))
        return true;
    enum visibility visibility = revalidate_visibility(f, dir, name);
    revalidate_detach(f, dir, name, inode);
    if (visibility == VISIBILITY_FULL)
        revalidate_touch(f, dir);
    else
        passages_forget(f);
    return false;
}

bool unwatched_check_name(struct fence *f, struct inode *dir, const char *name, struct inode *inode)
{
    if (!unwatched_any(f))
        return true;
    unwatched_check_dir(f, dir);
    return unwatched_compare_name(f, dir, name, inode);
}

struct names_digest {
    struct fence *f;
    struct match_state *at; /* borrowed */
    uint64_t sum;
};

static int add_to_digest(const char *name, uint8_t type, void *cookie)
{
    struct names_digest *d = cookie;
    size_t len = strlen(name);
    autoptr(match_state) match = ruleset_step(d->f->rules, d->at, name, len);

    if (required_level_check(POLICY_OP_LIST, match_state_level(match), false) == 0)
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

/* Names that the delta covers count too: otherwise covering one would look like a change of the base. */
static void unwatched_compare_names(struct fence *f, struct inode *dir)
{
    autoptr(match_state) at = inode_dup_match_state(f, dir);
    struct names_digest digest = { .f = f, .at = at };
    struct dir *d = dir->dir;
    struct stat st;
    bool changed;

    if (!at || !inode_has(dir, INODE_BASE) || !revalidate_is_shown(f, dir) || stat_base_dir(f, dir, &st) < 0)
        return;
    tree_lock(f);
    bool is_known = d->names_stamp && !base_stamp_differs(d->names_stamp, &st);
    tree_unlock(f);
    if (!is_known)
        casefold_recheck(f, dir);
    if (is_known || merge_each_base(f, dir, add_to_digest, &digest) < 0)
        return;
    tree_lock(f);
    changed = d->names_stamp && d->names_digest != digest.sum;
    d->names_digest = digest.sum;
    d->names_stamp = base_stamp_of(&st);
    tree_unlock(f);
    if (changed)
        revalidate_touch(f, dir);
}

/* DEPTH_MAX bounds the recursion. */
static void unwatched_check_dir(struct fence *f, struct inode *dir)
{
    int64_t now = unwatched_now_ms(), last = atomic_load(&dir->dir->checked_ms);
    struct inode_location where;

    if (now - last < f->unwatched_round_ms / CHECKS_IN_A_ROUND ||
        !atomic_compare_exchange_strong(&dir->dir->checked_ms, &last, now))
        return;
    last = atomic_load(&f->unwatched_ms);
    if (now - last >= f->unwatched_round_ms / CHECKS_IN_A_ROUND && atomic_compare_exchange_strong(&f->unwatched_ms, &last, now))
        passages_forget_absent(f);
    if (inode_locate(f, dir, &where) == 0) {
        unwatched_check_dir(f, where.parent);
        unwatched_compare_name(f, where.parent, where.name, dir);
        inode_location_done(f, &where);
    }
    if (inode_has(dir, INODE_DEAD) || !inode_has(dir, INODE_UNWATCHED))
        return;
    unwatched_compare_names(f, dir);
    unwatched_poll_add(f->poll, dir);
}

void unwatched_check(struct fence *f, struct inode *inode)
{
    struct inode_location where;

    if (!unwatched_any(f))
        return;
    if (inode_is_dir(inode)) {
        unwatched_check_dir(f, inode);
    } else if (unwatched_is_within(f, inode) && inode_locate(f, inode, &where) == 0) {
        unwatched_check_name(f, where.parent, where.name, inode);
        inode_location_done(f, &where);
    }
}

void unwatched_recheck(struct fence *f, struct inode *inode)
{
    struct stat st;

    if (base_stamp_is_settled(atomic_load(&inode->base_stamp)) || layer_stat_inode(f, inode, &st) < 0)
        return;
    handle_reopen(f, inode, LAYER_BASE);
    tree_lock(f);
    atomic_store(&inode->base_stamp, base_stamp_of(&st));
    inode_set(inode, INODE_STALE);
    tree_unlock(f);
}

void unwatched_before_read(struct fence *f, struct inode *inode)
{
    if (unwatched_any(f) && !inode_has(inode, INODE_POLLED))
        unwatched_check(f, inode);
}

void unwatched_after_read(struct fence *f, struct inode *inode)
{
    if (unwatched_any(f) && (inode_is_dir(inode) ? inode_has(inode, INODE_UNWATCHED) : unwatched_is_within(f, inode)))
        unwatched_poll_add(f->poll, inode);
}

void unwatched_check_all(struct fence *f, struct inode *dir)
{
    autodone(buf) struct buf names = BUF_EMPTY;

    tree_lock(f);
    for (const struct entry *e = entry_next(dir, NULL); e; e = entry_next(dir, e)) {
        if (e->inode)
            buf_add(&names, e->name, (size_t) e->len + 1);
    }
    tree_unlock(f);
    for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1) {
        const char *name = names.data + at;
        struct inode *child = entry_dup_inode(f, dir, name);
        if (child && unwatched_compare_name(f, dir, name, child) && inode_has(child, INODE_STALE))
            invalidate_soon(f, child);
        inode_unref(f, child);
    }
    unwatched_compare_names(f, dir);
}
