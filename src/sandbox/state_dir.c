#include "sandbox/state_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/host_mount.h"
#include "sandbox/sandbox_names.h"
#include "sandbox/state_dir_int.h"

#define NAMES_TOLD 8

/* ---- where it is ---- */

/* A relative path would mean another directory for every working directory. Returns NULL, with the reason in `err`. */
static char *take_absolute(const char *variable, const char *value, const char *below, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;

    if (*value == '/' && path_clean(value, strlen(value), &clean) == 0)
        return xprintf("%s%s", strcmp(clean.data, "/") == 0 ? "" : clean.data, below);
    err_set(err, ERR_FAILED_PRECONDITION, -EINVAL, "$%s is '%s'; it must be an absolute path", variable, value);
    return NULL;
}

char *state_dir_find_path(struct err *err)
{
    const char *state = getenv("AGENTFENSE_STATE_DIR"), *xdg = getenv("XDG_STATE_HOME"), *user = getenv("HOME");

    if (state && *state)
        return take_absolute("AGENTFENSE_STATE_DIR", state, "", err);
    if (geteuid() == 0)
        return xdup("/var/lib/agentfense");
    if (xdg && *xdg == '/') /* the XDG specification requires that relative values be ignored */
        return take_absolute("XDG_STATE_HOME", xdg, "/agentfense", err);
    if (user && *user)
        return take_absolute("HOME", user, "/.local/state/agentfense", err);
    err_set(err, ERR_FAILED_PRECONDITION, -EINVAL,
            "nowhere to keep sandboxes: set AGENTFENSE_STATE_DIR to a directory of your own, or HOME");
    return NULL;
}

/* Parents may be symlinks: the administrator of this host created them. New directories get mode 0700, as XDG requires. */
static int make_with_parents(const char *path)
{
    autofree char *part = xdup(path);

    for (char *slash = part + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        if (mkdir(part, 0700) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
            return -errno;
    }
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* A user who can write here could put a sandbox of their own in place of ours, or remove one while it is being applied. */
static int check_private(int fd, const char *path, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "state directory '%s'", path);
    if (st.st_uid != geteuid())
        return err_set(err, ERR_FAILED_PRECONDITION, -EPERM,
                       "state directory '%s' belongs to uid %u and you are uid %u; set AGENTFENSE_STATE_DIR to a directory of "
                       "your own",
                       path, (unsigned) st.st_uid, (unsigned) geteuid());
    if (st.st_mode & 022)
        return err_set(err, ERR_FAILED_PRECONDITION, -EPERM,
                       "state directory '%s' can be written by others (mode %04o); close it: chmod go-w '%s'", path,
                       (unsigned) st.st_mode & 07777, path);
    return 0;
}

static int open_root(struct state_dir *state_dir, bool create, struct err *err)
{
    int r = create ? make_with_parents(state_dir->path) : 0;

    if (r < 0)
        return err_errno(err, r, "making state directory '%s'", state_dir->path);
    state_dir->fd = open(state_dir->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (state_dir->fd < 0)
        return err_errno(err, -errno, "opening state directory '%s'", state_dir->path);
    return check_private(state_dir->fd, state_dir->path, err);
}

static int open_part(struct state_dir *state_dir, const char *name, bool create, int *ret_fd, struct err *err)
{
    autofree char *path = xprintf("%s/%s", state_dir->path, name);
    int r = create ? path_mkdirs_beneath(state_dir->fd, name, 0700) : 0, fd;

    if (r < 0)
        return err_errno(err, r, "making '%s'", path);
    fd = path_open_beneath(state_dir->fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return err_errno(err, fd, "opening '%s'", path);
    *ret_fd = fd;
    return check_private(fd, path, err);
}

/* Only creating or starting a sandbox needs this part, and creates it: listing and reviewing work without. */
static int open_later_part(struct state_dir *state_dir, const char *name, bool create, int *ret_fd, struct err *err)
{
    int r = open_part(state_dir, name, create, ret_fd, err);

    if (r != -ENOENT || create)
        return r;
    *err = ERR_NONE;
    return 0;
}

int state_dir_make_names(struct state_dir *state_dir, struct err *err)
{
    return state_dir->names_fd >= 0 ? 0 : open_part(state_dir, STATE_DIR_NAMES, true, &state_dir->names_fd, err);
}

/* Takes ownership of `path`. */
static int open_state_dir(char *path, bool create, struct state_dir *ret, struct err *err)
{
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    int r;

    state_dir.path = path;
    r = open_root(&state_dir, create, err);
    if (r == 0)
        r = open_part(&state_dir, "sandboxes", create, &state_dir.sandboxes_fd, err);
    if (r == 0)
        r = open_later_part(&state_dir, "uids", create, &state_dir.locks_fd, err);
    if (r == 0)
        r = open_later_part(&state_dir, STATE_DIR_NAMES, create, &state_dir.names_fd, err);
    if (r < 0)
        return r;
    state_dir_convert(&state_dir);
    *ret = state_dir;
    state_dir = STATE_DIR_NONE;
    return 0;
}

int state_dir_open(bool create, struct state_dir *ret, struct err *err)
{
    char *path = state_dir_find_path(err);

    return path ? open_state_dir(path, create, ret, err) : -EINVAL;
}

int state_dir_open_at(const char *path, struct state_dir *ret, struct err *err)
{
    return open_state_dir(xdup(path), true, ret, err);
}

void state_dir_done(struct state_dir *state_dir)
{
    free(state_dir->path);
    cleanup_fd(&state_dir->fd);
    cleanup_fd(&state_dir->sandboxes_fd);
    cleanup_fd(&state_dir->locks_fd);
    cleanup_fd(&state_dir->names_fd);
    *state_dir = STATE_DIR_NONE;
}

char *state_dir_path(const struct state_dir *state_dir, const char *name, const char *file)
{
    return xprintf("%s/sandboxes/%s/%s", state_dir->path, name, file);
}

/* ---- sandboxes ---- */

int state_dir_refuse_name(const char *name, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, name, strlen(name));
    return err_invalid(err, "'%s' is no name of a sandbox: 1 to %d of A-Z a-z 0-9 . _ -, not beginning with . or -",
                       shown.data ? shown.data : "", SANDBOX_NAME_MAX - 1);
}

/* Treat a symlink like any other entry that is not a directory, whether the kernel returns ELOOP or ENOTDIR. */
int state_dir_open_sandbox(const struct state_dir *state_dir, const char *name)
{
    int fd = path_open_beneath(state_dir->sandboxes_fd, name, O_RDONLY | O_DIRECTORY, 0);

    return fd == -ELOOP ? -ENOTDIR : fd;
}

static int is_sandbox(const struct dirent *d)
{
    return sandbox_name_is_valid(d->d_name);
}

/* Sorts by bytes instead of by the locale, so all users get the same order. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int list(const struct state_dir *state_dir, struct dirent ***ret_names, struct err *err)
{
    int count = scandirat(state_dir->sandboxes_fd, ".", ret_names, is_sandbox, by_name);

    return count < 0 ? err_errno(err, -errno, "reading '%s/sandboxes'", state_dir->path) : count;
}

static void names_free(struct dirent **names, int count)
{
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

static int each(const struct state_dir *state_dir, bool wants_all, state_dir_fn fn, void *cookie, struct err *err)
{
    struct dirent **names = NULL;
    int count = list(state_dir, &names, err), r = count < 0 ? count : 0;

    for (int i = 0; i < count && r == 0; i++) {
        autofd int fd = state_dir_open_sandbox(state_dir, names[i]->d_name);
        if (fd >= 0 || (wants_all && fd != -ENOENT)) /* otherwise it was removed meanwhile, or is not a directory */
            r = fn(names[i]->d_name, fd, cookie);
    }
    names_free(names, count);
    return r;
}

int state_dir_each(const struct state_dir *state_dir, state_dir_fn fn, void *cookie, struct err *err)
{
    return each(state_dir, false, fn, cookie, err);
}

int state_dir_each_name(const struct state_dir *state_dir, state_dir_fn fn, void *cookie, struct err *err)
{
    return each(state_dir, true, fn, cookie, err);
}

void state_dir_unmount_ended(const struct state_dir *state_dir, const char *name)
{
    autofd int dir_fd = path_open_beneath(state_dir->sandboxes_fd, name, O_RDONLY | O_DIRECTORY, 0);

    if (dir_fd >= 0)
        sandbox_dir_unmount_leftover(dir_fd);
}

/* If the spec is unreadable, take the name of an administrator's sandbox from its claim. If the claim stays, the name is free anyway: its
 * id has no directory. */
static void release_name(const struct state_dir *state_dir, const char *id, const struct sandbox_spec *spec)
{
    char claimed[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int lock = -1;

    if (state_dir->names_fd < 0 || (spec && !*spec->name) || sandbox_names_lock(state_dir, &lock, &ignored) < 0)
        return;
    if (spec)
        sandbox_names_release(state_dir, spec->owner, spec->name, id);
    else if (sandbox_names_find_id(state_dir, "", id, claimed) == 0)
        sandbox_names_release(state_dir, "", claimed, id);
}

/* Rename it to a temporary name first: a directory with a sandbox's name is always complete. */
static int remove_locked(struct state_dir *state_dir, const char *name, int dir_fd)
{
    autoptr(sandbox_spec) spec = NULL;
    struct err ignored = ERR_NONE;
    char temp[ID_TEXT_MAX];
    int r;

    /* If a killed supervisor left a mount on the host, this fails with EBUSY before anything is removed. The mount is unused: we hold the
     * sandbox's lock, and the delta is not locked. */
    if (unlinkat(dir_fd, HOST_MOUNT_DIR, AT_REMOVEDIR) < 0 && errno == EBUSY)
        host_mount_hide(dir_fd);
    if (unlinkat(dir_fd, HOST_MOUNT_DIR, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return -errno;
    sandbox_spec_load(dir_fd, &spec, &ignored);
    id_new(FILE_TEMP_PREFIX, temp);
    if (renameat(state_dir->sandboxes_fd, name, state_dir->sandboxes_fd, temp) < 0)
        return -errno;
    fault("sandbox_removed");
    release_name(state_dir, name, spec);
    r = file_remove_tree(state_dir->sandboxes_fd, temp);
    return r == 0 ? file_fsync_dir(state_dir->sandboxes_fd) : r;
}

int state_dir_remove(struct state_dir *state_dir, const char *name, struct err *err)
{
    autofd int dir_fd = -1, lock = -1;
    int r;

    if (!sandbox_name_is_valid(name))
        return state_dir_refuse_name(name, err);
    dir_fd = state_dir_open_sandbox(state_dir, name);
    if (dir_fd == -ENOTDIR && unlinkat(state_dir->sandboxes_fd, name, 0) == 0)
        return 0;
    if (dir_fd < 0)
        return dir_fd == -ENOENT
                   ? err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox '%s'; 'agentfense ls' lists them", name)
                   : err_errno(err, dir_fd, "opening sandbox '%s'", name);
    r = sandbox_dir_lock(dir_fd, &lock);
    if (r == 0 && sandbox_dir_delta_is_locked(dir_fd))
        r = -EBUSY;
    if (r == 0)
        r = remove_locked(state_dir, name, dir_fd);
    if (r == -EBUSY)
        return err_set(err, ERR_FAILED_PRECONDITION, r, "sandbox '%s' is running; stop it first", name);
    return r < 0 ? err_errno(err, r, "removing sandbox '%s'", name) : 0;
}
