#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/directory.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/tree_path.h"
#include "codebase/txn_int.h"

/* What the tree will be when the entries so far are performed, as far as it differs from `files`. */
struct plan {
    struct codebase_txn *txn;
    struct codebase_commit *commit;
    struct txn_judge judge;
    struct path_map paths;   /* path -> kind it will have; `index` of the entry that made it so, plus one */
    struct path_map parents; /* directories that get something */
    bool has_moved_dirs;     /* some entry puts or removes a directory: paths beneath are not what is on disk */
    char *last_parent;       /* owned; known to be a directory */
    struct err *err;
};

/* What is at a path, as the plan stands. */
struct sight {
    enum tree_kind kind;
    bool is_on_disk; /* `st` holds */
    struct stat st;
    const struct manifest_entry *by; /* the entry of the plan that put it, or NULL */
};

static int on_disk(struct plan *p, const char *path, struct sight *ret)
{
    autofd int fd = path_open_beneath(p->txn->cb->files_fd, path, O_PATH, 0);

    *ret = (struct sight){ 0 };
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return 0;
    if (fd < 0)
        return fd;
    if (fstat(fd, &ret->st) < 0)
        return -errno;
    ret->kind = tree_kind_of(ret->st.st_mode);
    ret->is_on_disk = ret->kind != TREE_NONE;
    return ret->is_on_disk ? 0 : -EINVAL;
}

/* Whether the plan moves away or newly makes a directory above. */
static bool is_under_moved(struct plan *p, const char *path)
{
    if (!p->has_moved_dirs)
        return false;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        if (path_map_find(&p->paths, path, (size_t) (slash - path)))
            return true;
    return false;
}

static int look(struct plan *p, const char *path, struct sight *ret)
{
    struct path_slot *slot = path_map_find(&p->paths, path, strlen(path));

    *ret = (struct sight){ 0 };
    if (slot) {
        ret->kind = (enum tree_kind) slot->value;
        ret->by = slot->index ? &p->txn->manifest.entries[slot->index - 1] : NULL;
        return 0;
    }
    return is_under_moved(p, path) ? 0 : on_disk(p, path, ret);
}

static void foresee(struct plan *p, const char *path, enum tree_kind kind, bool is_dir_moved)
{
    struct path_slot *slot = path_map_add(&p->paths, path);
    const char *slash = strrchr(path, '/');

    slot->value = kind;
    slot->index = p->txn->manifest.count;
    p->has_moved_dirs |= is_dir_moved;
    if (is_dir_moved) {
        free(p->last_parent);
        p->last_parent = NULL;
    }
    if (kind != TREE_NONE && slash) {
        autofree char *parent = xdupn(path, (size_t) (slash - path));
        path_map_add(&p->parents, parent);
    }
}

/* ---- entries ---- */

static int count_old(struct plan *p, const char *path, const struct sight *sight, struct manifest_entry *e)
{
    struct tree_count count = { 0 };
    int r = 0;

    e->old_kind = sight->kind;
    /* A sync removes only directories that are empty by then: what is in it now has entries of its own. */
    if (sight->is_on_disk && !(sight->kind == TREE_DIR && p->txn->manner == TXN_SYNC))
        r = tree_count_at(p->txn->cb->files_fd, path, &count);
    else if (sight->by) {
        count.bytes = sight->by->new_bytes;
        count.files = sight->by->new_files;
    }
    e->old_bytes = count.bytes;
    e->old_files = count.files;
    return r;
}

static struct manifest_entry *add_entry(struct plan *p, enum manifest_op op, const char *path, unsigned object, int64_t when_ns)
{
    struct manifest_entry *e = manifest_add(&p->txn->manifest);

    e->op = op;
    e->path = xdup(path);
    e->object = object;
    e->when_ns = when_ns;
    return e;
}

static int add_removal(struct plan *p, const char *path, unsigned object, int64_t when_ns, bool is_conflict,
                       const struct sight *sight)
{
    struct manifest_entry old = { 0 }, *e;
    int r = count_old(p, path, sight, &old);

    if (r < 0)
        return r;
    e = add_entry(p, MANIFEST_REMOVE, path, object, when_ns);
    e->old_kind = old.old_kind;
    e->old_bytes = old.old_bytes;
    e->old_files = old.old_files;
    e->is_conflict = is_conflict;
    foresee(p, path, TREE_NONE, sight->kind == TREE_DIR);
    return 0;
}

static int add_put(struct plan *p, enum manifest_op op, struct txn_wish *wish, bool is_conflict, const struct sight *sight)
{
    struct manifest_entry old = { 0 }, *e;
    struct tree_count count = { 0 };
    char object[OBJECT_NAME_MAX];
    int r;

    object_name('n', wish->object, object);
    r = tree_count_at(p->txn->stage.fd, object, &count);
    if (r >= 0 && op == MANIFEST_PUT)
        r = count_old(p, wish->path, sight, &old);
    if (r < 0)
        return r;
    e = add_entry(p, op, wish->path, wish->object, wish->when_ns);
    e->new_kind = wish->kind;
    e->new_bytes = count.bytes;
    e->new_files = count.files;
    e->old_kind = old.old_kind;
    e->old_bytes = old.old_bytes;
    e->old_files = old.old_files;
    e->is_conflict = is_conflict;
    e->sha256 = steal_ptr(&wish->sha256);
    e->source = steal_ptr(&wish->source);
    e->src_ino = wish->src_ino;
    e->src_mtime_ns = wish->src_mtime_ns;
    if (op == MANIFEST_PUT)
        foresee(p, wish->path, wish->kind, wish->kind == TREE_DIR || sight->kind == TREE_DIR);
    return 0;
}

static void tell_conflict(struct plan *p, const char *path, bool has_lost, int64_t when_ns, int64_t other_ns)
{
    struct codebase_commit *c = p->commit;

    vec_room(&c->conflicts, &c->conflict_cap, c->conflict_count);
    c->conflicts[c->conflict_count++] =
        (struct codebase_conflict){ .path = xdup(path), .has_lost = has_lost, .when_ns = when_ns, .other_ns = other_ns };
}

/* Kept for whoever wants it back; a removal that lost leaves nothing but its note. */
static int lose(struct plan *p, struct txn_wish *wish, int64_t other_ns)
{
    struct sight nothing = { 0 };

    tell_conflict(p, wish->path, true, wish->when_ns, other_ns);
    if (wish->op == WISH_PUT)
        return add_put(p, MANIFEST_LOST, wish, true, &nothing);
    add_entry(p, MANIFEST_LOST, wish->path, wish->object, wish->when_ns)->is_conflict = true;
    return 0;
}

/* The object would only lie about in the version. */
static int forgo(struct plan *p, const struct txn_wish *wish)
{
    char object[OBJECT_NAME_MAX];

    if (wish->op == WISH_REMOVE)
        return 0;
    object_name('n', wish->object, object);
    return unlinkat(p->txn->stage.fd, object, wish->kind == TREE_DIR ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

/* ---- directories above ---- */

static int make_dir(struct plan *p, const char *path, int64_t when_ns)
{
    struct txn_wish wish = { .op = WISH_PUT, .path = (char *) path, .kind = TREE_DIR, .when_ns = when_ns };
    struct sight nothing = { 0 };
    char object[OBJECT_NAME_MAX];

    wish.object = txn_next_object(p->txn);
    object_name('n', wish.object, object);
    if (mkdirat(p->txn->stage.fd, object, 0755) < 0 || fchmodat(p->txn->stage.fd, object, 0755, 0) < 0)
        return -errno;
    return add_put(p, MANIFEST_PUT, &wish, false, &nothing);
}

/* Something that is no directory stands where one is needed. 1: the wish loses against it. */
static int clear_way(struct plan *p, const char *dir, const struct txn_wish *wish, const struct sight *sight,
                     int64_t *ret_other)
{
    int r;

    if (p->txn->manner != TXN_SYNC)
        return tree_path_refuse(p->err, ERR_FAILED_PRECONDITION, -ENOTDIR, dir, "is not a directory");
    r = txn_judge_last_change(&p->judge, dir, sight->is_on_disk ? &sight->st : NULL, ret_other);
    if (r < 0 || wish->when_ns < *ret_other)
        return r < 0 ? r : 1;
    tell_conflict(p, dir, false, wish->when_ns, *ret_other);
    r = add_removal(p, dir, txn_next_object(p->txn), wish->when_ns, true, sight);
    return r < 0 ? r : make_dir(p, dir, wish->when_ns);
}

static int need_dir(struct plan *p, const char *dir, const struct txn_wish *wish, int64_t *ret_other)
{
    struct sight sight;
    int r = look(p, dir, &sight);

    if (r < 0 || sight.kind == TREE_DIR)
        return r;
    return sight.kind == TREE_NONE ? make_dir(p, dir, wish->when_ns) : clear_way(p, dir, wish, &sight, ret_other);
}

/* 1: the wish loses. */
static int need_parents(struct plan *p, const struct txn_wish *wish, int64_t *ret_other)
{
    const char *last = strrchr(wish->path, '/');
    autofree char *parent = last ? xdupn(wish->path, (size_t) (last - wish->path)) : NULL;
    int r = 0;

    if (!parent || (p->last_parent && strcmp(parent, p->last_parent) == 0))
        return 0;
    for (const char *slash = strchr(wish->path, '/'); slash && r == 0; slash = strchr(slash + 1, '/')) {
        autofree char *dir = xdupn(wish->path, (size_t) (slash - wish->path));

        r = need_dir(p, dir, wish, ret_other);
    }
    if (r == 0) {
        free(p->last_parent);
        p->last_parent = steal_ptr(&parent);
    }
    return r;
}

/* ---- wishes ---- */

static int refuse_kind(struct plan *p, const char *path, enum tree_kind there)
{
    if (there == TREE_DIR)
        return tree_path_refuse(p->err, ERR_FAILED_PRECONDITION, -EISDIR, path, "is a directory");
    return tree_path_refuse(p->err, ERR_FAILED_PRECONDITION, -ENOTDIR, path, "is not a directory");
}

static int put_over(struct plan *p, struct txn_wish *wish, const struct sight *sight)
{
    enum txn_verdict verdict = VERDICT_FREE;
    int64_t other = 0;
    int r;

    if (p->txn->manner != TXN_SYNC || sight->by)
        return add_put(p, MANIFEST_PUT, wish, false, sight);
    r = txn_judge_wish(&p->judge, p->txn, wish, sight->is_on_disk ? &sight->st : NULL, &verdict, &other);
    if (r < 0)
        return r;
    if (verdict == VERDICT_THE_SAME)
        return forgo(p, wish);
    if (verdict == VERDICT_LOSES)
        return lose(p, wish, other);
    if (verdict == VERDICT_WINS)
        tell_conflict(p, wish->path, false, wish->when_ns, other);
    return add_put(p, MANIFEST_PUT, wish, verdict == VERDICT_WINS, sight);
}

static int plan_put(struct plan *p, struct txn_wish *wish)
{
    struct sight sight;
    int64_t other = 0;
    int r = need_parents(p, wish, &other);

    if (r != 0)
        return r < 0 ? r : lose(p, wish, other);
    r = look(p, wish->path, &sight);
    if (r < 0)
        return r;
    if (p->txn->manner == TXN_EXACT)
        return put_over(p, wish, &sight);
    if (sight.kind == TREE_DIR && wish->kind == TREE_DIR)
        return forgo(p, wish);
    if (p->txn->manner == TXN_STRICT && sight.kind != TREE_NONE && (sight.kind == TREE_DIR) != (wish->kind == TREE_DIR))
        return refuse_kind(p, wish->path, sight.kind);
    /* A directory that the changer replaced by a file, but that holds something it could not see. */
    if (sight.kind == TREE_DIR)
        return lose(p, wish, 0);
    return put_over(p, wish, &sight);
}

/* Whether everything in the directory will be gone. */
static int is_emptied(struct plan *p, const char *path, const struct sight *sight)
{
    autodone(buf) struct buf child = BUF_EMPTY;
    bool is_empty = true;

    if (path_map_find(&p->parents, path, strlen(path)) || !sight->is_on_disk)
        return 0;
    autodirectory dir = directory_take(path_open_beneath(p->txn->cb->files_fd, path, O_RDONLY | O_DIRECTORY, 0));
    if (!dir)
        return -errno;
    for (const struct dirent *e; is_empty && (e = directory_next(dir));) {
        buf_clear(&child);
        buf_addf(&child, "%s/%s", path, e->d_name);
        struct path_slot *slot = path_map_find(&p->paths, child.data, child.len);
        is_empty = slot && slot->value == TREE_NONE;
    }
    return is_empty;
}

static int plan_remove(struct plan *p, struct txn_wish *wish)
{
    enum txn_verdict verdict = VERDICT_FREE;
    struct sight sight;
    int64_t other = 0;
    int r = look(p, wish->path, &sight);

    if (r < 0 || sight.kind == TREE_NONE)
        return r;
    if (p->txn->manner == TXN_SYNC && sight.kind == TREE_DIR) {
        r = is_emptied(p, wish->path, &sight);
        if (r <= 0)
            return r;
    } else if (p->txn->manner == TXN_SYNC && sight.is_on_disk) {
        r = txn_judge_wish(&p->judge, p->txn, wish, &sight.st, &verdict, &other);
        if (r < 0)
            return r;
    }
    if (verdict == VERDICT_LOSES)
        return lose(p, wish, other);
    if (verdict == VERDICT_WINS)
        tell_conflict(p, wish->path, false, wish->when_ns, other);
    return add_removal(p, wish->path, wish->object, wish->when_ns, verdict == VERDICT_WINS, &sight);
}

int txn_plan(struct codebase_txn *txn, const struct codebase_meta *meta, struct codebase_commit *commit, struct err *err)
{
    struct plan p = { .txn = txn, .commit = commit, .judge = { .cb = txn->cb, .meta = meta }, .err = err };
    struct err none = ERR_NONE;
    int r = 0;

    if (!err)
        p.err = &none;
    for (size_t i = 0; i < txn->wish_count && r >= 0; i++) {
        p.err->code = ERR_OK;
        r = txn->wishes[i].op == WISH_PUT ? plan_put(&p, &txn->wishes[i]) : plan_remove(&p, &txn->wishes[i]);
        if (r < 0 && p.err->code == ERR_OK)
            tree_path_errno(p.err, r, "changing", txn->wishes[i].path);
    }
    txn_judge_done(&p.judge);
    path_map_done(&p.paths);
    path_map_done(&p.parents);
    free(p.last_parent);
    return r < 0 ? r : 0;
}
