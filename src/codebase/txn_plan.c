#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/directory.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/tree_path.h"
#include "codebase/txn_int.h"

/* The tree after all entries so far, as far as it differs from `files`. */
struct txn_planner {
    struct codebase_txn *txn;
    struct codebase_commit *commit;
    struct txn_resolver resolver;
    struct path_map paths;   /* path -> its future type; `index` is that of the entry that sets it, plus one */
    struct path_map parents; /* directories that receive an entry */
    bool has_moved_dirs;     /* some entry puts or removes a directory: the disk does not show paths beneath it */
    char *last_parent;       /* owned; known to be a directory */
    struct err *err;
};

/* The state of a path in the plan. */
struct planned_path {
    enum tree_kind kind;
    bool is_on_disk; /* `st` is valid */
    struct stat st;
    const struct manifest_entry *by; /* the entry of the plan that put it, or NULL */
};

static int on_disk(struct txn_planner *p, const char *path, struct planned_path *ret)
{
    autofd int fd = path_open_beneath(p->txn->cb->files_fd, path, O_PATH, 0);

    *ret = (struct planned_path){ 0 };
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

/* Returns true if the plan moves away or creates a directory above. */
static bool is_under_moved(struct txn_planner *p, const char *path)
{
    if (!p->has_moved_dirs)
        return false;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        if (path_map_find(&p->paths, path, (size_t) (slash - path)))
            return true;
    return false;
}

static int look_up_path(struct txn_planner *p, const char *path, struct planned_path *ret)
{
    struct path_slot *slot = path_map_find(&p->paths, path, strlen(path));

    *ret = (struct planned_path){ 0 };
    if (slot) {
        ret->kind = (enum tree_kind) slot->value;
        ret->by = slot->index ? &p->txn->manifest.entries[slot->index - 1] : NULL;
        return 0;
    }
    return is_under_moved(p, path) ? 0 : on_disk(p, path, ret);
}

static void note_planned_path(struct txn_planner *p, const char *path, enum tree_kind kind, bool is_dir_moved)
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

/* These two remove a directory only if it is empty, and detect other changes by the state that the author saw. */
static bool is_by_sight(const struct txn_planner *p)
{
    return p->txn->manner == TXN_SYNC || p->txn->manner == TXN_SEEN;
}

static int refuse_unseen(struct txn_planner *p, const char *path)
{
    return tree_path_reject(p->err, ERR_ABORTED, -ESTALE, path, "was changed meanwhile");
}

static int count_old(struct txn_planner *p, const char *path, const struct planned_path *there, struct manifest_entry *e)
{
    struct tree_count count = { 0 };
    int r = 0;

    e->old_kind = there->kind;
    /* Only a directory that is empty by then is removed: its content has separate entries. */
    if (there->is_on_disk && !(there->kind == TREE_DIR && is_by_sight(p)))
        r = tree_count_at(p->txn->cb->files_fd, path, &count);
    else if (there->by) {
        count.bytes = there->by->new_bytes;
        count.files = there->by->new_files;
    }
    e->old_bytes = count.bytes;
    e->old_files = count.files;
    return r;
}

static struct manifest_entry *add_entry(struct txn_planner *p, enum manifest_op op, const char *path, unsigned object,
                                        int64_t when_ns)
{
    struct manifest_entry *e = manifest_add(&p->txn->manifest);

    e->op = op;
    e->path = xdup(path);
    e->object = object;
    e->when_ns = when_ns;
    return e;
}

static int add_removal(struct txn_planner *p, const char *path, unsigned object, int64_t when_ns, bool is_conflict,
                       const struct planned_path *there)
{
    struct manifest_entry old = { 0 }, *e;
    int r = count_old(p, path, there, &old);

    if (r < 0)
        return r;
    e = add_entry(p, MANIFEST_REMOVE, path, object, when_ns);
    e->old_kind = old.old_kind;
    e->old_bytes = old.old_bytes;
    e->old_files = old.old_files;
    e->is_conflict = is_conflict;
    note_planned_path(p, path, TREE_NONE, there->kind == TREE_DIR);
    return 0;
}

static int add_put(struct txn_planner *p, enum manifest_op op, struct txn_request *request, bool is_conflict,
                   const struct planned_path *there)
{
    struct manifest_entry old = { 0 }, *e;
    struct tree_count count = { 0 };
    char object[OBJECT_NAME_MAX];
    int r;

    object_name('n', request->object, object);
    r = tree_count_at(p->txn->stage.fd, object, &count);
    if (r >= 0 && op == MANIFEST_PUT)
        r = count_old(p, request->path, there, &old);
    if (r < 0)
        return r;
    e = add_entry(p, op, request->path, request->object, request->when_ns);
    e->new_kind = request->kind;
    e->new_bytes = count.bytes;
    e->new_files = count.files;
    e->old_kind = old.old_kind;
    e->old_bytes = old.old_bytes;
    e->old_files = old.old_files;
    e->is_conflict = is_conflict;
    e->sha256 = steal_ptr(&request->sha256);
    e->source = steal_ptr(&request->source);
    e->src_ino = request->src_ino;
    e->src_mtime_ns = request->src_mtime_ns;
    if (op == MANIFEST_PUT)
        note_planned_path(p, request->path, request->kind, request->kind == TREE_DIR || there->kind == TREE_DIR);
    return 0;
}

static void report_conflict(struct txn_planner *p, const char *path, bool has_lost, int64_t when_ns, int64_t other_ns)
{
    struct codebase_commit *c = p->commit;

    vec_room(&c->conflicts, &c->conflict_cap, c->conflict_count);
    c->conflicts[c->conflict_count++] =
        (struct codebase_conflict){ .path = xdup(path), .has_lost = has_lost, .when_ns = when_ns, .other_ns = other_ns };
}

/* Keeps the losing content so that it can be recovered; a removal that lost leaves only its entry. */
static int plan_loser(struct txn_planner *p, struct txn_request *request, int64_t other_ns)
{
    struct planned_path nothing = { 0 };

    report_conflict(p, request->path, true, request->when_ns, other_ns);
    if (request->op == TXN_REQUEST_PUT)
        return add_put(p, MANIFEST_LOST, request, true, &nothing);
    add_entry(p, MANIFEST_LOST, request->path, request->object, request->when_ns)->is_conflict = true;
    return 0;
}

/* The object would be useless in the version. */
static int discard_object(struct txn_planner *p, const struct txn_request *request)
{
    char object[OBJECT_NAME_MAX];

    if (request->op == TXN_REQUEST_REMOVE)
        return 0;
    object_name('n', request->object, object);
    return unlinkat(p->txn->stage.fd, object, request->kind == TREE_DIR ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

/* ---- parent directories ---- */

static int make_dir(struct txn_planner *p, const char *path, int64_t when_ns)
{
    struct txn_request request = { .op = TXN_REQUEST_PUT, .path = (char *) path, .kind = TREE_DIR, .when_ns = when_ns };
    struct planned_path nothing = { 0 };
    char object[OBJECT_NAME_MAX];

    request.object = txn_next_object(p->txn);
    object_name('n', request.object, object);
    if (mkdirat(p->txn->stage.fd, object, 0755) < 0 || fchmodat(p->txn->stage.fd, object, 0755, 0) < 0)
        return -errno;
    return add_put(p, MANIFEST_PUT, &request, false, &nothing);
}

/* A directory is needed where something else is. Returns 1 if the request loses against it. */
static int clear_way(struct txn_planner *p, const char *dir, const struct txn_request *request,
                     const struct planned_path *there, int64_t *ret_other)
{
    int r;

    if (p->txn->manner != TXN_SYNC)
        return tree_path_reject(p->err, ERR_FAILED_PRECONDITION, -ENOTDIR, dir, "is not a directory");
    r = txn_resolver_last_change(&p->resolver, dir, there->is_on_disk ? &there->st : NULL, ret_other);
    if (r < 0 || request->when_ns < *ret_other)
        return r < 0 ? r : 1;
    report_conflict(p, dir, false, request->when_ns, *ret_other);
    r = add_removal(p, dir, txn_next_object(p->txn), request->when_ns, true, there);
    return r < 0 ? r : make_dir(p, dir, request->when_ns);
}

static int require_dir(struct txn_planner *p, const char *dir, const struct txn_request *request, int64_t *ret_other)
{
    struct planned_path there;
    int r = look_up_path(p, dir, &there);

    if (r < 0 || there.kind == TREE_DIR)
        return r;
    return there.kind == TREE_NONE ? make_dir(p, dir, request->when_ns) : clear_way(p, dir, request, &there, ret_other);
}

/* Returns 1 if the request loses. */
static int require_parents(struct txn_planner *p, const struct txn_request *request, int64_t *ret_other)
{
    const char *last = strrchr(request->path, '/');
    autofree char *parent = last ? xdupn(request->path, (size_t) (last - request->path)) : NULL;
    int r = 0;

    if (!parent || (p->last_parent && strcmp(parent, p->last_parent) == 0))
        return 0;
    for (const char *slash = strchr(request->path, '/'); slash && r == 0; slash = strchr(slash + 1, '/')) {
        autofree char *dir = xdupn(request->path, (size_t) (slash - request->path));

        r = require_dir(p, dir, request, ret_other);
    }
    if (r == 0) {
        free(p->last_parent);
        p->last_parent = steal_ptr(&parent);
    }
    return r;
}

static int reject_kind(struct txn_planner *p, const char *path, enum tree_kind there)
{
    if (there == TREE_DIR)
        return tree_path_reject(p->err, ERR_FAILED_PRECONDITION, -EISDIR, path, "is a directory");
    return tree_path_reject(p->err, ERR_FAILED_PRECONDITION, -ENOTDIR, path, "is not a directory");
}

static int put_over(struct txn_planner *p, struct txn_request *request, const struct planned_path *there)
{
    enum txn_verdict verdict = VERDICT_FREE;
    int64_t other = 0;
    int r;

    if (!is_by_sight(p) || there->by)
        return add_put(p, MANIFEST_PUT, request, false, there);
    if (p->txn->manner == TXN_SEEN)
        return txn_is_as_seen(request, there->is_on_disk ? &there->st : NULL) ? add_put(p, MANIFEST_PUT, request, false, there)
                                                                              : refuse_unseen(p, request->path);
    r = txn_resolver_decide(&p->resolver, p->txn, request, there->is_on_disk ? &there->st : NULL, &verdict, &other);
    if (r < 0)
        return r;
    if (verdict == VERDICT_THE_SAME)
        return discard_object(p, request);
    if (verdict == VERDICT_LOSES)
        return plan_loser(p, request, other);
    if (verdict == VERDICT_WINS)
        report_conflict(p, request->path, false, request->when_ns, other);
    return add_put(p, MANIFEST_PUT, request, verdict == VERDICT_WINS, there);
}

static int plan_put(struct txn_planner *p, struct txn_request *request)
{
    struct planned_path there;
    int64_t other = 0;
    int r = require_parents(p, request, &other);

    if (r != 0)
        return r < 0 ? r : plan_loser(p, request, other);
    r = look_up_path(p, request->path, &there);
    if (r < 0)
        return r;
    if (p->txn->manner == TXN_EXACT)
        return put_over(p, request, &there);
    if (there.kind == TREE_DIR && request->kind == TREE_DIR)
        return discard_object(p, request);
    if (p->txn->manner == TXN_STRICT && there.kind != TREE_NONE && (there.kind == TREE_DIR) != (request->kind == TREE_DIR))
        return reject_kind(p, request->path, there.kind);
    /* The author replaced the directory by a file, but it contains something that the author could not see. */
    if (there.kind == TREE_DIR)
        return p->txn->manner == TXN_SEEN ? refuse_unseen(p, request->path) : plan_loser(p, request, 0);
    return put_over(p, request, &there);
}

/* Returns true if the plan removes everything in the directory. */
static int is_emptied(struct txn_planner *p, const char *path, const struct planned_path *there)
{
    autodone(buf) struct buf child = BUF_EMPTY;
    bool is_empty = true;

    if (path_map_find(&p->parents, path, strlen(path)) || !there->is_on_disk)
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

static int plan_remove(struct txn_planner *p, struct txn_request *request)
{
    enum txn_verdict verdict = VERDICT_FREE;
    struct planned_path there;
    int64_t other = 0;
    int r = look_up_path(p, request->path, &there);

    if (r < 0 || there.kind == TREE_NONE)
        return r;
    if (is_by_sight(p) && there.kind == TREE_DIR) {
        r = is_emptied(p, request->path, &there);
        if (r <= 0)
            return r;
    } else if (p->txn->manner == TXN_SEEN) {
        if (!there.by && !txn_is_as_seen(request, &there.st))
            return refuse_unseen(p, request->path);
    } else if (p->txn->manner == TXN_SYNC && there.is_on_disk) {
        r = txn_resolver_decide(&p->resolver, p->txn, request, &there.st, &verdict, &other);
        if (r < 0)
            return r;
    }
    if (verdict == VERDICT_LOSES)
        return plan_loser(p, request, other);
    if (verdict == VERDICT_WINS)
        report_conflict(p, request->path, false, request->when_ns, other);
    return add_removal(p, request->path, request->object, request->when_ns, verdict == VERDICT_WINS, &there);
}

int txn_plan(struct codebase_txn *txn, const struct codebase_meta *meta, struct codebase_commit *commit, struct err *err)
{
    struct txn_planner p = { .txn = txn, .commit = commit, .resolver = { .cb = txn->cb, .meta = meta }, .err = err };
    struct err none = ERR_NONE;
    int r = 0;

    if (!err)
        p.err = &none;
    for (size_t i = 0; i < txn->request_count && r >= 0; i++) {
        p.err->code = ERR_OK;
        r = txn->requests[i].op == TXN_REQUEST_PUT ? plan_put(&p, &txn->requests[i]) : plan_remove(&p, &txn->requests[i]);
        if (r < 0 && p.err->code == ERR_OK)
            tree_path_errno(p.err, r, "changing", txn->requests[i].path);
    }
    txn_resolver_done(&p.resolver);
    path_map_done(&p.paths);
    path_map_done(&p.parents);
    free(p.last_parent);
    return r < 0 ? r : 0;
}
