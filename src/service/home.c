#include "service/home.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "service/home_int.h"
#include "service/host_mount.h"

#define LOCK_TRIES 10 /* 2 ms apart */
#define NAMES_TOLD 8

/* ---- where it is ---- */

/* A relative path would mean another place for everybody who asks from another directory. NULL, and the reason in `err`. */
static char *take_absolute(const char *variable, const char *value, const char *below, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;

    if (*value == '/' && path_clean(value, strlen(value), &clean) == 0)
        return xprintf("%s%s", strcmp(clean.data, "/") == 0 ? "" : clean.data, below);
    err_set(err, ERR_FAILED_PRECONDITION, -EINVAL, "$%s is '%s'; it must be an absolute path", variable, value);
    return NULL;
}

char *home_find_path(struct err *err)
{
    const char *state = getenv("AGENTFENSE_STATE_DIR"), *xdg = getenv("XDG_STATE_HOME"), *user = getenv("HOME");

    if (state && *state)
        return take_absolute("AGENTFENSE_STATE_DIR", state, "", err);
    if (geteuid() == 0)
        return xdup("/var/lib/agentfense");
    if (xdg && *xdg == '/') /* the XDG specification has relative values ignored */
        return take_absolute("XDG_STATE_HOME", xdg, "/agentfense", err);
    if (user && *user)
        return take_absolute("HOME", user, "/.local/state/agentfense", err);
    err_set(err, ERR_FAILED_PRECONDITION, -EINVAL,
            "nowhere to keep sandboxes: set AGENTFENSE_STATE_DIR to a directory of your own, or HOME");
    return NULL;
}

/* Those above it may be symlinks: whoever set up this host put them there. What is made is closed, as XDG asks. */
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

/* Somebody who can write here could put a sandbox of their making under our feet, or take one away while it is being applied. */
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

static int open_root(struct home *home, bool create, struct err *err)
{
    int r = create ? make_with_parents(home->path) : 0;

    if (r < 0)
        return err_errno(err, r, "making state directory '%s'", home->path);
    home->fd = open(home->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (home->fd < 0)
        return err_errno(err, -errno, "opening state directory '%s'", home->path);
    return check_private(home->fd, home->path, err);
}

static int open_part(struct home *home, const char *name, bool create, int *ret_fd, struct err *err)
{
    autofree char *path = xprintf("%s/%s", home->path, name);
    int r = create ? path_mkdirs_beneath(home->fd, name, 0700) : 0, fd;

    if (r < 0)
        return err_errno(err, r, "making '%s'", path);
    fd = path_open_beneath(home->fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return err_errno(err, fd, "opening '%s'", path);
    *ret_fd = fd;
    return check_private(fd, path, err);
}

/* Takes the path. */
static int open_home(char *path, bool create, struct home *ret, struct err *err)
{
    autodone(home) struct home home = HOME_NONE;
    int r;

    home.path = path;
    r = open_root(&home, create, err);
    if (r == 0)
        r = open_part(&home, "sandboxes", create, &home.sandboxes_fd, err);
    if (r == 0)
        r = open_part(&home, "uids", create, &home.locks_fd, err);
    /* Only who starts a sandbox needs it, and makes it: sandboxes can be listed and reviewed without. */
    if (r == -ENOENT && !create && home.sandboxes_fd >= 0)
        r = 0;
    if (r < 0)
        return r;
    *ret = home;
    home = HOME_NONE;
    return 0;
}

int home_open(bool create, struct home *ret, struct err *err)
{
    char *path = home_find_path(err);

    return path ? open_home(path, create, ret, err) : -EINVAL;
}

int home_open_at(const char *path, struct home *ret, struct err *err)
{
    return open_home(xdup(path), true, ret, err);
}

void home_done(struct home *home)
{
    free(home->path);
    cleanup_fd(&home->fd);
    cleanup_fd(&home->sandboxes_fd);
    cleanup_fd(&home->locks_fd);
    *home = HOME_NONE;
}

char *home_path(const struct home *home, const char *name, const char *file)
{
    return xprintf("%s/sandboxes/%s/%s", home->path, name, file);
}

/* ---- who lives ---- */

int home_lock(int sandbox_dir_fd, int *ret_fd)
{
    autofd int fd = path_open_beneath(sandbox_dir_fd, "lock", O_RDWR | O_CREAT | O_NONBLOCK, 0600);

    if (fd < 0)
        return fd;
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCK_TRIES)
            return errno == EWOULDBLOCK ? -EBUSY : -errno;
        nanosleep(&(struct timespec){ .tv_nsec = 2 * CLOCK_NS_PER_MS }, NULL);
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}

static bool is_locked(int dirfd, const char *relpath)
{
    autofd int fd = path_open_beneath(dirfd, relpath, O_RDONLY | O_NONBLOCK, 0);

    /* What cannot be looked at counts as alive: the other mistake would remove a sandbox under its supervisor. */
    if (fd < 0)
        return fd != -ENOENT;
    return flock(fd, LOCK_SH | LOCK_NB) < 0;
}

/* Directories that were made for a rule are in there as well: they keep a sandbox longer than it would have to be. */
bool home_has_changes(int sandbox_dir_fd)
{
    autodirectory dir = directory_take(path_open_beneath(sandbox_dir_fd, "delta/data", O_RDONLY | O_DIRECTORY, 0));

    return dir ? directory_next(dir) != NULL : errno != ENOENT;
}

bool home_is_running(int sandbox_dir_fd)
{
    return is_locked(sandbox_dir_fd, "lock");
}

bool home_lives(const struct home *home, const char *name)
{
    char found[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;

    return home_find(home, name, found, &dir_fd, &ignored) == 0 && home_is_running(dir_fd);
}

/* ---- finding and removing ---- */

int home_refuse_name(const char *name, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, name, strlen(name));
    return err_invalid(err, "'%s' is no name of a sandbox: 1 to %d of A-Z a-z 0-9 . _ -, not beginning with . or -",
                       shown.data ? shown.data : "", SANDBOX_NAME_MAX - 1);
}

/* A link is no directory either, whichever of both the kernel calls it. */
static int open_sandbox(const struct home *home, const char *name)
{
    int fd = path_open_beneath(home->sandboxes_fd, name, O_RDONLY | O_DIRECTORY, 0);

    return fd == -ELOOP ? -ENOTDIR : fd;
}

static int is_sandbox(const struct dirent *d)
{
    return sandbox_name_is_valid(d->d_name);
}

/* Sorted in bytes, not by the locale: the same list for everybody. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int list(const struct home *home, struct dirent ***ret_names, struct err *err)
{
    int count = scandirat(home->sandboxes_fd, ".", ret_names, is_sandbox, by_name);

    return count < 0 ? err_errno(err, -errno, "reading '%s/sandboxes'", home->path) : count;
}

static void names_free(struct dirent **names, int count)
{
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

static int each(const struct home *home, bool wants_all, home_fn fn, void *cookie, struct err *err)
{
    struct dirent **names = NULL;
    int count = list(home, &names, err), r = count < 0 ? count : 0;

    for (int i = 0; i < count && r == 0; i++) {
        autofd int fd = open_sandbox(home, names[i]->d_name);
        if (fd >= 0 || (wants_all && fd != -ENOENT)) /* otherwise it went meanwhile, or is none */
            r = fn(names[i]->d_name, fd, cookie);
    }
    names_free(names, count);
    return r;
}

int home_each(const struct home *home, home_fn fn, void *cookie, struct err *err)
{
    return each(home, false, fn, cookie, err);
}

int home_each_name(const struct home *home, home_fn fn, void *cookie, struct err *err)
{
    return each(home, true, fn, cookie, err);
}

int home_check(const struct home *home, const char *name, struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    autofd int dir_fd = open_sandbox(home, name);

    return dir_fd < 0 ? err_errno(err, dir_fd, "opening its directory") : sandbox_spec_load(dir_fd, &spec, err);
}

/* The one name of the list that begins so, or NULL and how many do. */
static const char *match_prefix(struct dirent **names, int count, const char *prefix, int *ret_matches, struct buf *ret_all)
{
    const char *found = NULL;
    size_t len = strlen(prefix);

    *ret_matches = 0;
    for (int i = 0; i < count; i++) {
        if (strncmp(names[i]->d_name, prefix, len) != 0)
            continue;
        if (++*ret_matches <= NAMES_TOLD)
            buf_addf(ret_all, "%s%s", found ? ", " : "", names[i]->d_name);
        found = names[i]->d_name;
    }
    if (*ret_matches > NAMES_TOLD)
        buf_addf(ret_all, " and %d more", *ret_matches - NAMES_TOLD);
    return *ret_matches == 1 ? found : NULL;
}

static int find_name(const struct home *home, const char *name, char ret_name[SANDBOX_NAME_MAX], struct err *err)
{
    autodone(buf) struct buf all = BUF_EMPTY;
    struct dirent **names = NULL;
    struct stat st;
    const char *found;
    int matches, count, r = 0;

    if (fstatat(home->sandboxes_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        memcpy(ret_name, name, strlen(name) + 1);
        return 0;
    }
    count = list(home, &names, err);
    if (count < 0)
        return count;
    found = match_prefix(names, count, name, &matches, &all);
    if (found)
        memcpy(ret_name, found, strlen(found) + 1);
    else if (matches > 1)
        r = err_invalid(err, "several sandboxes begin with '%s': %s; say more of the name", name, all.data);
    else
        r = err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox '%s'; 'agentfense ls' lists them", name);
    names_free(names, count);
    return r;
}

int home_find(const struct home *home, const char *name, char ret_name[SANDBOX_NAME_MAX], int *ret_dir_fd, struct err *err)
{
    char found[SANDBOX_NAME_MAX];
    int r, fd;

    if (!sandbox_name_is_valid(name))
        return home_refuse_name(name, err);
    r = find_name(home, name, found, err);
    if (r < 0)
        return r;
    fd = open_sandbox(home, found);
    memcpy(ret_name, found, sizeof(found));
    if (fd < 0)
        return err_errno(err, fd, "opening sandbox '%s'", found);
    *ret_dir_fd = fd;
    return 0;
}

void home_unmount_leftover(int sandbox_dir_fd)
{
    autofd int lock = -1;

    if (home_lock(sandbox_dir_fd, &lock) == 0)
        host_mount_hide(sandbox_dir_fd);
}

void home_unmount_ended(const struct home *home, const char *name)
{
    autofd int dir_fd = path_open_beneath(home->sandboxes_fd, name, O_RDONLY | O_DIRECTORY, 0);

    if (dir_fd >= 0)
        home_unmount_leftover(dir_fd);
}

/* Under a temporary name from the first step: what has a sandbox's name is whole. */
static int remove_locked(struct home *home, const char *name, int dir_fd)
{
    char temp[ID_TEXT_MAX];
    int r;

    /* A mount that a killed supervisor left on the host shows by EBUSY, before anything is gone. We have the sandbox's lock and nobody
     * has the delta's, so it serves nobody. */
    if (unlinkat(dir_fd, HOST_MOUNT_DIR, AT_REMOVEDIR) < 0 && errno == EBUSY)
        host_mount_hide(dir_fd);
    if (unlinkat(dir_fd, HOST_MOUNT_DIR, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return -errno;
    id_new(FILE_TEMP_PREFIX, temp);
    if (renameat(home->sandboxes_fd, name, home->sandboxes_fd, temp) < 0)
        return -errno;
    r = file_remove_tree(home->sandboxes_fd, temp);
    return r == 0 ? file_fsync_dir(home->sandboxes_fd) : r;
}

int home_remove(struct home *home, const char *name, struct err *err)
{
    autofd int dir_fd = -1, lock = -1;
    int r;

    if (!sandbox_name_is_valid(name))
        return home_refuse_name(name, err);
    dir_fd = open_sandbox(home, name);
    if (dir_fd == -ENOTDIR && unlinkat(home->sandboxes_fd, name, 0) == 0)
        return 0;
    if (dir_fd < 0)
        return dir_fd == -ENOENT
                   ? err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox '%s'; 'agentfense ls' lists them", name)
                   : err_errno(err, dir_fd, "opening sandbox '%s'", name);
    r = home_lock(dir_fd, &lock);
    if (r == 0 && is_locked(dir_fd, "delta/meta/lock"))
        r = -EBUSY;
    if (r == 0)
        r = remove_locked(home, name, dir_fd);
    if (r == -EBUSY)
        return err_set(err, ERR_FAILED_PRECONDITION, r, "sandbox '%s' is running; stop it first", name);
    return r < 0 ? err_errno(err, r, "removing sandbox '%s'", name) : 0;
}
