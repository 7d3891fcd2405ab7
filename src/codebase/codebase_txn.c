#include "codebase/codebase_txn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codebase/settle.h"
#include "codebase/steps.h"
#include "codebase/tree_path.h"
#include "codebase/txn_int.h"

struct codebase_seen codebase_seen_of_stat(const struct stat *st)
{
    return (struct codebase_seen){
        .kind = CODEBASE_SEEN_FILE, .ino = st->st_ino, .size_bytes = (uint64_t) st->st_size, .mtime_ns = stat_mtime_ns(st)
    };
}

static char *dup_short(const char *text)
{
    return text ? xdupn(text, strnlen(text, MANIFEST_TEXT_MAX)) : NULL;
}

int txn_new(struct codebase *cb, enum txn_manner manner, const char *by, const char *reason, struct codebase_txn **ret,
            struct err *err)
{
    autoptr(codebase_txn) txn = xnew(struct codebase_txn);
    int r;

    txn->cb = cb;
    txn->manner = manner;
    txn->manifest.by = dup_short(by);
    txn->manifest.reason = dup_short(reason);
    r = stage_init(&txn->stage, cb);
    if (r < 0)
        return err_errno(err, r, "beginning a change of the codebase '%s'", cb->id);
    *ret = steal_ptr(&txn);
    return 0;
}

int codebase_txn_begin(struct codebase *cb, const char *by, const char *reason, struct codebase_txn **ret, struct err *err)
{
    return txn_new(cb, TXN_SYNC, by, reason, ret, err);
}

int codebase_txn_begin_exact(struct codebase *cb, const char *by, const char *reason, struct codebase_txn **ret,
                             struct err *err)
{
    return txn_new(cb, TXN_SEEN, by, reason, ret, err);
}

void codebase_txn_free(struct codebase_txn *txn)
{
    if (!txn)
        return;
    for (size_t i = 0; i < txn->request_count; i++) {
        free(txn->requests[i].path);
        free(txn->requests[i].sha256);
        free(txn->requests[i].source);
    }
    free(txn->requests);
    manifest_done(&txn->manifest);
    stage_done(&txn->stage);
    free(txn);
}

void codebase_commit_done(struct codebase_commit *commit)
{
    for (size_t i = 0; i < commit->change_count; i++)
        free(commit->changes[i].path);
    for (size_t i = 0; i < commit->conflict_count; i++)
        free(commit->conflicts[i].path);
    free(commit->changes);
    free(commit->conflicts);
    *commit = CODEBASE_COMMIT_NONE;
}

/* ---- requests ---- */

unsigned txn_next_object(struct codebase_txn *txn)
{
    return txn->objects++;
}

static struct txn_request *add_request(struct codebase_txn *txn, const char *path)
{
    vec_room(&txn->requests, &txn->request_cap, txn->request_count);
    txn->requests[txn->request_count] = (struct txn_request){ .path = xdup(path), .when_ns = clock_wall_ns() };
    return &txn->requests[txn->request_count++];
}

struct txn_request *txn_request_put(struct codebase_txn *txn, const char *path, unsigned object, enum tree_kind kind)
{
    struct txn_request *request = add_request(txn, path);

    request->op = TXN_REQUEST_PUT;
    request->object = object;
    request->kind = kind;
    txn->staged_count++;
    return request;
}

struct txn_request *txn_request_remove(struct codebase_txn *txn, const char *path)
{
    struct txn_request *request = add_request(txn, path);

    request->op = TXN_REQUEST_REMOVE;
    request->object = txn_next_object(txn);
    return request;
}

static int clean_change(const struct codebase_change *change, struct buf *out, struct err *err)
{
    return tree_path_clean_entry(change->path, strlen(change->path), out, err);
}

static void set_request_time(struct txn_request *request, const struct codebase_change *change)
{
    request->when_ns = change->when_ns;
    request->seen = change->seen;
}

/* Returns the path by which recovery, possibly in another process, finds the file again. */
static char *source_path(int dirfd, const char *name)
{
    char self[40], path[PATH_MAX];
    ssize_t len;

    snprintf(self, sizeof(self), "/proc/self/fd/%d", dirfd);
    len = readlink(self, path, sizeof(path) - 1);
    if (len <= 0 || path[0] != '/')
        return NULL;
    path[len] = 0;
    return xprintf("%s/%s", strcmp(path, "/") == 0 ? "" : path, name);
}

/* Links the file if possible. A file with several links is copied, because another link would stay in the delta. */
static int stage_source(struct codebase_txn *txn, int dirfd, const char *name, const struct stat *st, const char *object)
{
    if (S_ISREG(st->st_mode) && st->st_nlink == 1 && linkat(dirfd, name, txn->stage.fd, object, 0) == 0)
        return stage_tame(txn->stage.fd, object, st);
    return stage_copy(dirfd, name, txn->stage.fd, object);
}

int codebase_txn_put(struct codebase_txn *txn, const struct codebase_change *change, int source_dirfd, const char *source_name,
                     struct err *err)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    autofree char *source = NULL;
    char object[OBJECT_NAME_MAX];
    unsigned number = txn_next_object(txn);
    struct txn_request *request;
    struct stat st;
    int r = clean_change(change, &path, err);

    if (r < 0)
        return r;
    if (fstatat(source_dirfd, source_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return tree_path_errno(err, -errno, "taking the new", path.data);
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return err_reject(err, -EINVAL, path.data, "is neither a file nor a symbolic link");
    source = source_path(source_dirfd, source_name);
    if (!source)
        return tree_path_errno(err, -ENOENT, "finding the source of", path.data);
    object_name('n', number, object);
    r = stage_source(txn, source_dirfd, source_name, &st, object);
    if (r < 0)
        return tree_path_errno(err, r, "taking the new", path.data);
    request = txn_request_put(txn, path.data, number, tree_kind_of(st.st_mode));
    set_request_time(request, change);
    request->source = steal_ptr(&source);
    request->src_ino = st.st_ino;
    request->src_mtime_ns = stat_mtime_ns(&st);
    return 0;
}

/* Stages an object that the caller describes instead of moving one. `target` NULL: a directory. */
static int put_made(struct codebase_txn *txn, const struct codebase_change *change, const char *target, mode_t mode,
                    struct err *err)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    char object[OBJECT_NAME_MAX];
    unsigned number = txn_next_object(txn);
    int r = clean_change(change, &path, err);

    if (r < 0)
        return r;
    object_name('n', number, object);
    r = target ? symlinkat(target, txn->stage.fd, object) : mkdirat(txn->stage.fd, object, (mode & 0777) | 0700);
    if (r == 0 && !target)
        r = fchmodat(txn->stage.fd, object, (mode & 0777) | 0700, 0);
    if (r < 0)
        return tree_path_errno(err, -errno, "making the new", path.data);
    set_request_time(txn_request_put(txn, path.data, number, target ? TREE_LINK : TREE_DIR), change);
    return 0;
}

int codebase_txn_symlink(struct codebase_txn *txn, const struct codebase_change *change, const char *target, struct err *err)
{
    if (!*target || strlen(target) >= PATH_MAX)
        return err_reject(err, -EINVAL, target, "is no target of a symbolic link");
    return put_made(txn, change, target, 0, err);
}

int codebase_txn_mkdir(struct codebase_txn *txn, const struct codebase_change *change, mode_t mode, struct err *err)
{
    return put_made(txn, change, NULL, mode, err);
}

int codebase_txn_remove(struct codebase_txn *txn, const struct codebase_change *change, struct err *err)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    int r = clean_change(change, &path, err);

    if (r < 0)
        return r;
    set_request_time(txn_request_remove(txn, path.data), change);
    return 0;
}

/* Removes the delta's files for requests that changed nothing because the codebase had the same content. This is not journaled:
 * after a crash the next sync finds them equal again. */
static void drop_the_same(struct codebase_txn *txn)
{
    for (size_t i = 0; i < txn->request_count; i++)
        if (txn->requests[i].source)
            (void) steps_remove_source(txn->requests[i].source, txn->requests[i].src_ino, txn->requests[i].src_mtime_ns);
}

static void report_changes(const struct manifest *m, struct codebase_commit *commit)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *e = &m->entries[i];

        if (e->op == MANIFEST_LOST)
            continue;
        vec_room(&commit->changes, &commit->change_cap, commit->change_count);
        commit->changes[commit->change_count++] =
            (struct codebase_changed){ .path = xdup(e->path),
                                       .is_removed = e->op == MANIFEST_REMOVE,
                                       .is_tree = e->new_kind == TREE_DIR || e->old_kind == TREE_DIR };
    }
}

static int plan_and_commit(struct codebase_txn *txn, struct codebase_meta *meta, struct codebase_commit *commit,
                           struct err *err)
{
    int r = txn_plan(txn, meta, commit, err);

    if (r >= 0 && txn->manifest.count > 0)
        r = settle_commit(&txn->stage, &txn->manifest, meta, err);
    if (r < 0)
        return r;
    drop_the_same(txn);
    report_changes(&txn->manifest, commit);
    commit->version = meta->version;
    commit->size_bytes = meta->size_bytes;
    commit->file_count = meta->file_count;
    return 0;
}

int txn_finish_locked(struct codebase_txn *txn, struct codebase_meta *meta, struct codebase_commit *ret, struct err *err)
{
    struct codebase_commit commit = CODEBASE_COMMIT_NONE;
    int r = plan_and_commit(txn, meta, &commit, err);

    if (r < 0 || !ret)
        codebase_commit_done(&commit);
    else
        *ret = commit;
    return r;
}

int txn_finish(struct codebase_txn *txn, struct codebase_commit *ret, struct err *err)
{
    struct codebase_meta meta;
    autofd int lock = -1;
    int r = stage_sync(&txn->stage, txn->staged_count);

    codebase_step("codebase-staged");
    if (r < 0)
        return err_errno(err, r, "writing a change of the codebase '%s' to disk", txn->cb->id);
    r = codebase_lock(txn->cb, &lock, &meta, err);
    return r < 0 ? r : txn_finish_locked(txn, &meta, ret, err);
}

int codebase_txn_commit(struct codebase_txn *txn, struct codebase_commit *ret, struct err *err)
{
    return txn_finish(txn, ret, err);
}
