#include "fence/guard.h"

#include <errno.h>
#include <string.h>

#include "fence/audit.h"
#include "fence/inode.h"
#include "fence/whiteout.h"

void guard_report_denied(struct fence *f, enum policy_op op, struct inode *dir, const char *name, enum level level, int error,
                         const struct op_caller *who)
{
    atomic_fetch_add_explicit(&f->denied[op], 1, memory_order_relaxed);
    audit_denied(f, op, dir, name, level, error, who);
}

int guard_inode(struct fence *f, enum policy_op op, struct inode *inode, const struct op_caller *who)
{
    enum level level = (enum level) atomic_load_explicit(&inode->level, memory_order_relaxed);
    int r = required_level_check(op, level, inode_has(inode, INODE_PASSAGE) || inode == f->root);

    atomic_fetch_add_explicit(&f->ops[op], 1, memory_order_relaxed);
    if (r < 0)
        guard_report_denied(f, op, inode, NULL, level, -r, who);
    return r;
}

static int guard_step_name(struct fence *f, struct inode *dir, const char *name, struct match_state **ret_match)
{
    struct match_state *at;

    if (!inode_is_dir(dir))
        return -ENOTDIR;
    at = inode_dup_match_state(f, dir);
    if (!at)
        return -ENOENT;
    *ret_match = ruleset_step(f->rules, at, name, strlen(name));
    match_state_unref(at);
    return 0;
}

static bool policy_op_creates(enum policy_op op)
{
    return op == POLICY_OP_MKNOD || op == POLICY_OP_MKDIR || op == POLICY_OP_SYMLINK || op == POLICY_OP_RENAME_TO ||
           op == POLICY_OP_LINK_TO;
}

int guard_name(struct fence *f, enum policy_op op, struct inode *dir, const char *name, const struct op_caller *who,
               struct match_state **ret_match)
{
    autoptr(match_state) match = NULL;
    bool is_passage = false;
    int r;

    atomic_fetch_add_explicit(&f->ops[op], 1, memory_order_relaxed);
    if (strlen(name) > NAME_MAX)
        return -ENAMETOOLONG;
    if (whiteout_is_reserved(name))
        return policy_op_creates(op) ? -EPERM : -ENOENT;
    r = guard_step_name(f, dir, name, &match);
    if (r < 0)
        return r;
    if (match_state_level(match) == LEVEL_NONE) {
        tree_lock(f);
        const struct entry *e = entry_find(dir, name, strlen(name));
        is_passage = e && e->inode && inode_has(e->inode, INODE_PASSAGE);
        tree_unlock(f);
    }
    r = required_level_check(op, match_state_level(match), is_passage);
    if (r < 0) {
        guard_report_denied(f, op, dir, name, match_state_level(match), -r, who);
        return r;
    }
    if (ret_match)
        *ret_match = steal_ptr(&match);
    return 0;
}

int guard_lookup(struct fence *f, struct inode *dir, const char *name, struct match_state **ret_match, bool *ret_maybe_passage)
{
    autoptr(match_state) match = NULL;
    int r;

    *ret_maybe_passage = false;
    if (strlen(name) > NAME_MAX)
        return -ENAMETOOLONG;
    if (whiteout_is_reserved(name))
        return -ENOENT;
    r = guard_step_name(f, dir, name, &match);
    if (r < 0)
        return r;
    if (required_level_check(POLICY_OP_LOOKUP, match_state_level(match), false) < 0) {
        if (!ruleset_may_show_below(f->rules, match))
            return -EACCES;
        *ret_maybe_passage = true;
    }
    *ret_match = steal_ptr(&match);
    return 0;
}
