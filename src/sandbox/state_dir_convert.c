/*
 * Converts sandboxes of a release before ids, whose directories have their names. Each gets an id in these steps; the conversion may be
 * interrupted after any:
 *
 *     lock      keeps other processes from starting, reviewing or removing it meanwhile
 *     claim     its name, for the new id. The claim is void while the id has no directory, but the directory with the name still blocks other claims
 *     spec      contains the id. The next attempt continues with that id
 *     rename    the directory to the id. Now it is converted
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/sandbox_id.h"
#include "sandbox/sandbox_names.h"
#include "sandbox/state_dir_int.h"

/* A process that held the lock before us may have renamed or removed it. */
static bool still_has_name(const struct state_dir *state_dir, const char *name, int dir_fd)
{
    struct stat now, opened;

    return fstatat(state_dir->sandboxes_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && fstat(dir_fd, &opened) == 0 &&
           now.st_dev == opened.st_dev && now.st_ino == opened.st_ino;
}

static int store_id(int dir_fd, struct sandbox_spec *spec, const char *name, const char *id, struct err *err)
{
    free(spec->id);
    free(spec->name);
    spec->id = xdup(id);
    spec->name = xdup(name);
    return sandbox_spec_store(dir_fd, spec, true, err);
}

static int rename_to_id(const struct state_dir *state_dir, const char *name, const char *id, struct err *err)
{
    if (renameat2(state_dir->sandboxes_fd, name, state_dir->sandboxes_fd, id, RENAME_NOREPLACE) < 0)
        return err_errno(err, -errno, "renaming its directory");
    fault("convert_renamed");
    return file_fsync_dir(state_dir->sandboxes_fd);
}

/* The caller holds its lock. */
static int convert_locked(struct state_dir *state_dir, const char *name, int dir_fd, struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    autofd int names_lock = -1;
    char id[SANDBOX_ID_MAX];
    int r = sandbox_spec_load(dir_fd, &spec, err);

    if (r == 0)
        r = state_dir_make_names(state_dir, err);
    if (r == 0)
        r = sandbox_names_lock(state_dir, &names_lock, err);
    if (r < 0)
        return r;
    if (*spec->id)
        memcpy(id, spec->id, strlen(spec->id) + 1);
    else
        sandbox_id_new(id);
    r = sandbox_names_take_over(state_dir, name, id, err);
    fault("convert_name_claimed");
    if (r == 0 && (!*spec->id || strcmp(spec->name, name) != 0))
        r = store_id(dir_fd, spec, name, id, err);
    fault("convert_spec_written");
    return r == 0 ? rename_to_id(state_dir, name, id, err) : r;
}

static void convert_one(struct state_dir *state_dir, const char *name)
{
    struct err err = ERR_NONE;
    autofd int dir_fd = state_dir_open_sandbox(state_dir, name), lock = -1;

    if (dir_fd < 0 || sandbox_dir_is_running(dir_fd) || sandbox_dir_lock(dir_fd, &lock) < 0 ||
        !still_has_name(state_dir, name, dir_fd))
        return;
    if (convert_locked(state_dir, name, dir_fd, &err) < 0)
        log_debug("a sandbox of an earlier release keeps its name as its id", LOG_STR("name", name),
                  LOG_STR("error", err.text));
}

void state_dir_convert(struct state_dir *state_dir)
{
    autodirectory dir = directory_open(state_dir->sandboxes_fd);

    for (const struct dirent *d; (d = directory_next(dir));)
        if (sandbox_name_is_valid(d->d_name) && !sandbox_id_is_valid(d->d_name))
            convert_one(state_dir, d->d_name);
}

/* ---- servers of the first edition ---- */

/* A lock follows its file through a rename, so locks that running sandboxes hold on their user stay held. Does not replace anything:
 * entries that exist in both places stay. Returns -EEXIST for these. */
static int take_in_entries(int from_fd, int to_fd)
{
    autodirectory dir = directory_open(from_fd);
    int r = dir ? 0 : -errno;

    for (const struct dirent *d; dir && (d = directory_next(dir));) {
        if (d->d_name[0] == '.')
            continue; /* a temporary directory, which was never acknowledged */
        if (renameat2(from_fd, d->d_name, to_fd, d->d_name, RENAME_NOREPLACE) < 0)
            r = -errno;
    }
    return r;
}

static int take_in_part(int old_fd, const char *name, int to_fd, struct err *err)
{
    autofd int fd = path_open_beneath(old_fd, name, O_RDONLY | O_DIRECTORY, 0);
    int r = fd == -ENOENT ? 0 : fd < 0 ? fd : take_in_entries(fd, to_fd);

    if (r == 0)
        r = file_fsync_dir(to_fd);
    return r < 0 ? err_errno(err, r, "moving '" STATE_DIR_OLD_PART "/%s' into its parent", name) : 0;
}

int state_dir_take_in(struct state_dir *state_dir, struct err *err)
{
    static const char host_id[] = "host-id", link[] = STATE_DIR_OLD_PART ".new";
    autofd int old_fd = path_open_beneath(state_dir->fd, STATE_DIR_OLD_PART, O_RDONLY | O_DIRECTORY, 0);
    struct stat here, there;
    autofd int lock = -1;
    int r;

    if (old_fd == -ENOENT || old_fd == -ELOOP || old_fd == -ENOTDIR)
        return 0;
    if (old_fd < 0)
        return err_errno(err, old_fd, "opening '%s/" STATE_DIR_OLD_PART "'", state_dir->path);
    if (fstat(old_fd, &there) < 0 || fstat(state_dir->fd, &here) < 0 || here.st_dev != there.st_dev)
        return 0; /* a separate disk, which the configuration names as this directory */
    lock = path_open_beneath(old_fd, "server-lock", O_RDWR, 0);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY,
                       "a server of an earlier release serves the sandboxes in '%s/" STATE_DIR_OLD_PART "'; stop it first",
                       state_dir->path);
    r = take_in_part(old_fd, "uids", state_dir->locks_fd, err);
    if (r == -EEXIST)
        *err = ERR_NONE; /* both directories have a file for this user */
    else if (r < 0)
        return r;
    r = take_in_part(old_fd, "sandboxes", state_dir->sandboxes_fd, err);
    if (r < 0)
        return r;
    fault("take_in_moved");
    /* The rows of a database belong to the host with this id. */
    if (renameat(old_fd, host_id, state_dir->fd, host_id) < 0 && errno != ENOENT)
        return err_errno(err, -errno, "moving '%s/" STATE_DIR_OLD_PART "/%s' into its parent", state_dir->path, host_id);
    unlinkat(state_dir->fd, link, 0);
    if (symlinkat(".", state_dir->fd, link) < 0 ||
        renameat2(state_dir->fd, link, state_dir->fd, STATE_DIR_OLD_PART, RENAME_EXCHANGE) < 0)
        return err_errno(err, -errno, "replacing '%s/" STATE_DIR_OLD_PART "' by a link", state_dir->path);
    r = file_fsync_dir(state_dir->fd);
    if (r == 0)
        r = file_remove_tree(state_dir->fd, link);
    log_info("moved the sandboxes of an earlier release", LOG_STR("directory", state_dir->path));
    return r < 0 ? err_errno(err, r, "removing the empty '%s/" STATE_DIR_OLD_PART "'", state_dir->path) : 0;
}
