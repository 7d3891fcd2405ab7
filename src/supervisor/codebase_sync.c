#include "supervisor/codebase_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "codebase/tree_path.h"

struct codebase_sync {
    struct codebase *codebase; /* owned */
    char *name;                /* owned: the sandbox's name */
};

static int check_base(const struct codebase_sync *codebase_sync, const char *base_path, struct err *err)
{
    struct stat files, base;

    if (fstat(codebase_files_fd(codebase_sync->codebase), &files) < 0 || stat(base_path, &base) < 0)
        return err_errno(err, -errno, "base '%s'", base_path);
    if (files.st_dev != base.st_dev || files.st_ino != base.st_ino)
        return err_invalid(err, "base '%s' does not hold the files of codebase '%s'", base_path,
                           codebase_id(codebase_sync->codebase));
    return 0;
}

/* Opens spec->codebase_path, "<root>/<id>". */
static int open_codebase(const struct sandbox_spec *spec, struct codebase **ret, struct err *err)
{
    struct codebase_options options = { .quota_bytes = spec->codebase_quota_bytes,
                                        .keep_versions = spec->codebase_keep_versions,
                                        .keep_ns = (int64_t) spec->codebase_keep_ns };
    const char *slash = strrchr(spec->codebase_path, '/');
    autofree char *root = xdupn(spec->codebase_path, slash == spec->codebase_path ? 1 : (size_t) (slash - spec->codebase_path));
    autoptr(codebases) all = NULL;
    int r;

    /* codebases_open() would create a missing directory. */
    if (access(root, F_OK) < 0)
        return err_errno(err, -errno, "codebase '%s'", spec->codebase_path);
    r = codebases_open(root, &options, &all, err);
    /* Opening also finishes the work of a sync that was killed. */
    return r < 0 ? r : codebase_open(all, slash + 1, ret, err);
}

int codebase_sync_open(const struct sandbox_spec *spec, struct codebase_sync **ret, struct err *err)
{
    struct codebase_sync *codebase_sync;
    int r;

    *ret = NULL;
    if (!spec->codebase_path || spec->codebase_path[0] == '\0')
        return 0;
    codebase_sync = xnew(struct codebase_sync);
    codebase_sync->name = xdup(sandbox_spec_dir_name(spec));
    r = open_codebase(spec, &codebase_sync->codebase, err);
    if (r == 0)
        r = check_base(codebase_sync, spec->base_path, err);
    if (r < 0) {
        codebase_sync_close(codebase_sync);
        return r;
    }
    *ret = codebase_sync;
    return 0;
}

void codebase_sync_close(struct codebase_sync *codebase_sync)
{
    if (!codebase_sync)
        return;
    codebase_close(codebase_sync->codebase);
    free(codebase_sync->name);
    free(codebase_sync);
}

void codebase_sync_result_done(struct codebase_sync_result *result)
{
    codebase_commit_done(&result->commit);
    *result = (struct codebase_sync_result){ 0 };
}

struct codebase_sync_cookie {
    struct codebase_sync *codebase_sync;
    const char *by;
    struct codebase_commit commit;
};

static struct codebase_seen codebase_sync_seen_of(const struct sync_out_base *was)
{
    switch (was->kind) {
    case SYNC_OUT_BASE_ABSENT:
        return CODEBASE_WAS_ABSENT;
    case SYNC_OUT_BASE_PRESENT:
        return (struct codebase_seen){ CODEBASE_SEEN_FILE, was->ino, was->size_bytes, was->mtime_ns };
    case SYNC_OUT_BASE_UNKNOWN:
        break;
    }
    return CODEBASE_UNSEEN;
}

/* Changes that a codebase cannot hold stay in the delta: paths that are too deep or too long, and the mode of an existing
 * directory. */
static bool codebase_sync_can_apply(const struct sync_out_change *change)
{
    autodone(buf) struct buf clean = BUF_EMPTY;

    return change->kind != SYNC_OUT_MODE && tree_path_clean_entry(change->path, strlen(change->path), &clean, NULL) == 0;
}

static int codebase_sync_add_change(struct codebase_txn *txn, const struct sync_out_change *change, struct err *err)
{
    struct codebase_change wanted = { change->path, change->changed_ns, codebase_sync_seen_of(&change->was) };

    switch (change->kind) {
    case SYNC_OUT_FILE:
    case SYNC_OUT_SYMLINK:
        return codebase_txn_put(txn, &wanted, change->from_fd, change->name, err);
    case SYNC_OUT_DIR:
        return codebase_txn_mkdir(txn, &wanted, change->mode, err);
    case SYNC_OUT_REMOVED:
        return codebase_txn_remove(txn, &wanted, err);
    case SYNC_OUT_MODE:
        break;
    }
    return 0;
}

static int cmp_path(const void *a, const void *b)
{
    return strcmp(((const struct codebase_conflict *) a)->path, ((const struct codebase_conflict *) b)->path);
}

static void report_fates(struct sync_out_change *changes, size_t count, struct codebase_commit *commit)
{
    if (commit->conflict_count == 0)
        return;
    qsort(commit->conflicts, commit->conflict_count, sizeof(*commit->conflicts), cmp_path);
    for (size_t i = 0; i < count; i++) {
        struct codebase_conflict key = { .path = (char *) (uintptr_t) changes[i].path }, *found;
        found = bsearch(&key, commit->conflicts, commit->conflict_count, sizeof(key), cmp_path);
        if (found && found->has_lost && changes[i].outcome == SYNC_OUT_TAKEN)
            changes[i].outcome = SYNC_OUT_LOST;
    }
}

static int codebase_sync_commit(struct codebase_sync_cookie *t, struct codebase_txn *txn, struct err *err)
{
    int r = codebase_txn_commit(txn, &t->commit, err);
    struct codebase_info info;

    if (r != -EINPROGRESS)
        return r;
    /* The version exists, but some files could not be moved into place. Settles it now, because the sandbox continues with
     * this version. */
    r = codebase_settle(t->codebase_sync->codebase, err);
    if (r == 0)
        r = codebase_info(t->codebase_sync->codebase, &info, err);
    if (r == 0)
        t->commit.version = info.version;
    return r;
}

static int codebase_sync_apply(struct sync_out_change *changes, size_t count, void *cookie, struct err *err)
{
    struct codebase_sync_cookie *t = cookie;
    autofree char *reason = xprintf("sync of sandbox %s", t->codebase_sync->name);
    autoptr(codebase_txn) txn = NULL;
    size_t added = 0;
    int r = codebase_txn_begin(t->codebase_sync->codebase, t->by, reason, &txn, err);

    for (size_t i = 0; r == 0 && i < count; i++) {
        if (!codebase_sync_can_apply(&changes[i])) {
            changes[i].outcome = SYNC_OUT_LEFT;
            continue;
        }
        r = codebase_sync_add_change(txn, &changes[i], err);
        added++;
    }
    if (r == 0 && added > 0)
        r = codebase_sync_commit(t, txn, err);
    if (r == 0)
        report_fates(changes, count, &t->commit);
    return r;
}

int codebase_sync_run(struct codebase_sync *codebase_sync, struct fence *fence, const char *by,
                      struct codebase_sync_result *ret, struct err *err)
{
    struct codebase_sync_cookie t = { .codebase_sync = codebase_sync, .by = by, .commit = CODEBASE_COMMIT_NONE };
    struct codebase_sync_result result = { 0 };
    struct codebase_info info;
    int r = fence_sync_out(fence, codebase_sync_apply, &t, &result.handed, err);

    /* Without changes there is no commit to take the version from. */
    if (r == 0 && t.commit.version == 0) {
        r = codebase_info(codebase_sync->codebase, &info, err);
        t.commit.version = r == 0 ? info.version : 0;
    }
    if (r < 0) {
        codebase_commit_done(&t.commit);
        return err_wrap(err, r, "syncing to codebase '%s'", codebase_id(codebase_sync->codebase));
    }
    result.commit = t.commit;
    *ret = result;
    return 0;
}
