#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/codebase_version.h"
#include "codebase/settle.h"
#include "codebase/tree_path.h"
#include "codebase/txn_int.h"

/*
 * The first change of a path after version N contains its state at version N: the entry's old object. So the search goes
 * through the versions from N+1 on, and the first entry for a path counts. A later entry for a parent directory counts too,
 * because its old object contains the rest of that directory: it is staged first, and the earlier entries are then put into it.
 */
struct want {
    char *path; /* owned; the path to restore */
    uint64_t version;
    char *object;  /* owned; place of the content in that version; NULL: it did not exist */
    unsigned root; /* number of the staged object that contains it */
    bool is_staged;
};

struct restoring {
    struct codebase_txn *txn;
    const char *scope; /* "": everything */
    struct want *wants;
    size_t count, cap;
    struct path_map paths;
};

static void restoring_done(struct restoring *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->wants[i].path);
        free(r->wants[i].object);
    }
    free(r->wants);
    path_map_done(&r->paths);
}

static bool is_known(const struct restoring *r, const char *path)
{
    if (path_map_find(&r->paths, path, strlen(path)))
        return true;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        if (path_map_find(&r->paths, path, (size_t) (slash - path)))
            return true;
    return false;
}

static void add_want(struct restoring *r, uint64_t version, const struct manifest_entry *e)
{
    char old[OBJECT_NAME_MAX];
    const char *path = e->path, *rest = "";

    if (*r->scope && strcmp(path, r->scope) != 0 && !tree_path_is_in(r->scope, path)) {
        if (!tree_path_is_in(path, r->scope))
            return;
        path = r->scope;
        rest = r->scope + strlen(e->path);
    }
    if (is_known(r, path))
        return;
    object_name('o', e->object, old);
    path_map_add(&r->paths, path);
    vec_room(&r->wants, &r->cap, r->count);
    r->wants[r->count++] = (struct want){ .path = xdup(path),
                                          .version = version,
                                          .object = e->old_kind == TREE_NONE ? NULL : xprintf("%s%s", old, rest) };
}

static int find_wants(struct restoring *r, uint64_t version, uint64_t newest)
{
    for (uint64_t n = version + 1; n <= newest; n++) {
        autodone(manifest) struct manifest m = MANIFEST_EMPTY;
        autofd int fd = settle_open_version(r->txn->cb, n);
        int e = fd < 0 ? fd : manifest_read(fd, &m);

        if (e < 0)
            return e;
        for (size_t i = 0; i < m.count; i++)
            if (m.entries[i].op != MANIFEST_LOST)
                add_want(r, n, &m.entries[i]);
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct want *) a)->path, ((const struct want *) b)->path);
}

/* Opens the directory of the content. Returns 1 if the path did not exist. */
static int open_content(struct codebase *cb, const struct want *want, int *ret_dirfd, const char **ret_name)
{
    autofd int fd = -1, parent = -1;
    struct stat st;
    int r;

    if (!want->object)
        return 1;
    fd = settle_open_version(cb, want->version);
    if (fd < 0)
        return fd;
    r = path_open_parent_beneath(fd, want->object, &parent, ret_name);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
        return 1;
    if (r < 0)
        return r;
    if (fstatat(parent, *ret_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT || errno == ENOTDIR ? 1 : -errno;
    *ret_dirfd = steal_fd(&parent);
    return 0;
}

/* Returns the topmost staged directory above a path, or NULL. */
static const struct want *find_root(const struct restoring *r, const char *path)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct path_slot *slot = path_map_find(&r->paths, path, (size_t) (slash - path));

        if (slot)
            return &r->wants[slot->index];
    }
    return NULL;
}

static int stage_top(struct restoring *r, struct want *want)
{
    struct codebase_txn *txn = r->txn;
    char object[OBJECT_NAME_MAX];
    autofd int from = -1;
    struct stat st;
    const char *name;
    int e = open_content(txn->cb, want, &from, &name);

    if (e < 0)
        return e;
    if (e == 1) {
        txn_request_remove(txn, want->path);
        return 0;
    }
    want->root = txn_next_object(txn);
    want->is_staged = true;
    object_name('n', want->root, object);
    e = stage_copy(from, name, txn->stage.fd, object);
    if (e < 0 || fstatat(txn->stage.fd, object, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return e < 0 ? e : -errno;
    txn_request_put(txn, want->path, want->root, tree_kind_of(st.st_mode));
    return 0;
}

static int stage_beneath(struct restoring *r, const struct want *root, struct want *want)
{
    struct codebase_txn *txn = r->txn;
    char object[OBJECT_NAME_MAX];
    autofree char *where = NULL;
    autofd int from = -1, parent = -1;
    const char *name, *target;
    int e;

    if (!root->is_staged)
        return 0; /* its directory did not exist, so it did not either */
    object_name('n', root->root, object);
    where = xprintf("%s%s", object, want->path + strlen(root->path));
    e = path_open_parent_beneath(txn->stage.fd, where, &parent, &target);
    if (e < 0)
        return e == -ENOENT || e == -ENOTDIR ? 0 : e; /* its directory did not exist either */
    e = file_remove_tree(parent, target);
    if (e >= 0)
        e = open_content(txn->cb, want, &from, &name);
    if (e != 0)
        return e < 0 ? e : 0;
    return stage_copy(from, name, parent, target);
}

static int stage_wants(struct restoring *r)
{
    if (r->count)
        qsort(r->wants, r->count, sizeof(*r->wants), by_path);
    for (size_t i = 0; i < r->count; i++)
        path_map_find(&r->paths, r->wants[i].path, strlen(r->wants[i].path))->index = i;
    for (size_t i = 0; i < r->count; i++) {
        const struct want *root = find_root(r, r->wants[i].path);
        int e = root ? stage_beneath(r, root, &r->wants[i]) : stage_top(r, &r->wants[i]);

        if (e < 0)
            return e;
    }
    /* The number of copied files is unknown: SIZE_MAX syncs the whole file system at once. */
    return r->count ? stage_sync(&r->txn->stage, SIZE_MAX) : 0;
}

int codebase_restore(struct codebase *cb, uint64_t version, const char *path, const char *by, struct codebase_commit *ret,
                     struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    autoptr(codebase_txn) txn = NULL;
    struct codebase_meta meta;
    autofd int lock = -1;
    int r = tree_path_clean(path ? path : "", path ? strlen(path) : 0, &clean, err);

    if (r >= 0)
        r = txn_new(cb, TXN_EXACT, by, "restore", &txn, err);
    if (r >= 0)
        r = codebase_lock(cb, &lock, &meta, err);
    if (r >= 0)
        r = codebase_meta_check_version(&meta, version, err);
    if (r < 0)
        return r;
    struct restoring restoring = { .txn = txn, .scope = clean.data };
    r = find_wants(&restoring, version, meta.version);
    if (r >= 0)
        r = stage_wants(&restoring);
    restoring_done(&restoring);
    if (r < 0)
        return err_errno(err, r, "restoring version %" PRIu64, version);
    return txn_finish_locked(txn, &meta, ret, err);
}
