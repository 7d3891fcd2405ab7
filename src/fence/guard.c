#include "fence/guard.h"

#include <errno.h>
#include <string.h>

#include "fence/audit.h"
#include "fence/inode.h"
#include "fence/whiteout.h"

void guard_refused(struct fence *f, enum need_op op, struct inode *dir, const char *name, enum level level, int error,
                   const struct caller *who)
{
    atomic_fetch_add_explicit(&f->denied[op], 1, memory_order_relaxed);
    audit_denied(f, op, dir, name, level, error, who);
}

int guard_inode(struct fence *f, enum need_op op, struct inode *inode, const struct caller *who)
{
    enum level level = (enum level) atomic_load_explicit(&inode->level, memory_order_relaxed);
    int r = need_check(op, level, inode_has(inode, INODE_PASSAGE) || inode == f->root);

    atomic_fetch_add_explicit(&f->ops[op], 1, memory_order_relaxed);
    if (r < 0)
        guard_refused(f, op, inode, NULL, level, -r, who);
    return r;
}

static int step(struct fence *f, struct inode *dir, const char *name, struct place **ret_place)
{
    struct place *at;

    if (!inode_is_dir(dir))
        return -ENOTDIR;
    at = inode_dup_place(f, dir);
    if (!at)
        return -ENOENT;
    *ret_place = ruleset_step(f->rules, at, name, strlen(name));
    place_unref(at);
    return 0;
}

static bool creates(enum need_op op)
{
    return op == NEED_MKNOD || op == NEED_MKDIR || op == NEED_SYMLINK || op == NEED_RENAME_TO || op == NEED_LINK_TO;
}

int guard_name(struct fence *f, enum need_op op, struct inode *dir, const char *name, const struct caller *who,
               struct place **ret_place)
{
    autoptr(place) place = NULL;
    bool is_passage = false;
    int r;

    atomic_fetch_add_explicit(&f->ops[op], 1, memory_order_relaxed);
    if (strlen(name) > NAME_MAX)
        return -ENAMETOOLONG;
    if (whiteout_is_reserved(name))
        return creates(op) ? -EPERM : -ENOENT;
    r = step(f, dir, name, &place);
    if (r < 0)
        return r;
    if (place_level(place) == LEVEL_NONE) {
        tree_lock(f);
        const struct entry *e = entry_find(dir, name, strlen(name));
        is_passage = e && e->inode && inode_has(e->inode, INODE_PASSAGE);
        tree_unlock(f);
    }
    r = need_check(op, place_level(place), is_passage);
    if (r < 0) {
        guard_refused(f, op, dir, name, place_level(place), -r, who);
        return r;
    }
    if (ret_place)
        *ret_place = steal_ptr(&place);
    return 0;
}

int guard_lookup(struct fence *f, struct inode *dir, const char *name, struct place **ret_place, bool *ret_maybe_passage)
{
    autoptr(place) place = NULL;
    int r;

    *ret_maybe_passage = false;
    if (strlen(name) > NAME_MAX)
        return -ENAMETOOLONG;
    if (whiteout_is_reserved(name))
        return -ENOENT;
    r = step(f, dir, name, &place);
    if (r < 0)
        return r;
    if (need_check(NEED_LOOKUP, place_level(place), false) < 0) {
        if (!ruleset_may_show_below(f->rules, place))
            return -EACCES;
        *ret_maybe_passage = true;
    }
    *ret_place = steal_ptr(&place);
    return 0;
}
