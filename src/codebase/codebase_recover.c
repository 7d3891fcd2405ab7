#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/file.h"
#include "codebase/codebase_int.h"
#include "codebase/stage.h"
#include "codebase/trim.h"

int codebase_delete(struct codebases *all, const char *id, struct err *err)
{
    autoptr(codebase) cb = NULL;
    autofd int lock = -1;
    char name[ID_TEXT_MAX];
    int r = codebase_open_unsettled(all, id, &cb, err);

    if (r >= 0)
        r = codebase_lock_only(cb, &lock, err);
    if (r < 0)
        return r;
    id_new(CODEBASE_DELETED_PREFIX, name);
    r = renameat(all->fd, id, all->fd, name) < 0 ? -errno : file_fsync_dir(all->fd);
    codebase_step("codebase-deleted");
    if (r < 0)
        return err_errno(err, r, "deleting the codebase '%s'", id);
    /* The codebase is deleted; recovery removes what this could not. */
    (void) file_remove_tree(all->fd, name);
    return 0;
}

struct codebase_recovery {
    struct codebases *all;
    struct err *err;
    int first;
};

static void note_failure(struct codebase_recovery *rec, int r, const struct err *why)
{
    if (r >= 0 || rec->first < 0)
        return;
    rec->first = r;
    if (rec->err)
        *rec->err = *why;
}

static int recover_one(struct codebases *all, const char *id, struct err *err)
{
    autoptr(codebase) cb = NULL;
    struct codebase_meta meta;
    autofd int lock = -1;
    int r = codebase_open_unsettled(all, id, &cb, err);

    if (r >= 0)
        r = codebase_lock(cb, &lock, &meta, err);
    if (r < 0)
        return r == -ENOENT ? 0 : r; /* deleted meanwhile */
    trim_run(cb, &meta);
    r = stage_collect(cb);
    return r < 0 ? err_errno(err, r, "recovering the codebase '%s'", id) : 0;
}

static int recover_name(const char *name, void *cookie)
{
    struct codebase_recovery *rec = cookie;
    struct err err = ERR_NONE;
    int r = 0;

    if (id_is_valid(CODEBASE_ID_PREFIX, name))
        r = recover_one(rec->all, name, &err);
    else if (id_is_valid(CODEBASE_DELETED_PREFIX, name) || id_is_valid(CODEBASE_NEW_PREFIX, name))
        r = stage_collect_one(rec->all->fd, name);
    if (r < 0 && err.code == ERR_OK)
        err_errno(&err, r, "removing what is left of a codebase");
    note_failure(rec, r, &err);
    return 0;
}

int codebases_recover(struct codebases *all, struct err *err)
{
    struct codebase_recovery rec = { .all = all, .err = err };
    int r = tree_each_name(all->fd, recover_name, &rec);

    if (r < 0)
        return err_errno(err, r, "listing the codebases");
    return rec.first;
}
