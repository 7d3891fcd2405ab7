#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copy_delta.h"
#include "fence/copy_delta_int.h"
#include "fence/copyup.h"

/* Serialises with copy_delta_refresh(), which would otherwise see half of the update. */
static int lock_copy(int sandbox_fd)
{
    autofd int turn = path_open_beneath(sandbox_fd, COPY "/lock", O_RDWR | O_CREAT, 0600);

    if (turn < 0 || flock(turn, LOCK_EX) < 0)
        return turn < 0 ? turn : -errno;
    return steal_fd(&turn);
}

/* Makes `path` in `tree` what `from` has there. */
static int copy_path_over(int from, int tree, const char *path)
{
    autofd int found = path_open_beneath(from, path, O_PATH, 0);
    const char *slash = strrchr(path, '/');
    autofree char *above = slash ? xdupn(path, (size_t) (slash - path)) : NULL;
    struct stat st;
    int r = file_remove_tree(tree, path);

    if (r < 0 || found < 0)
        return r;
    if (fstat(found, &st) < 0)
        return -errno;
    if (above && (r = path_mkdirs_beneath(tree, above, 0755)) < 0)
        return r;
    if (S_ISREG(st.st_mode))
        return copy_delta_file(from, path, tree, path, &st);
    if (S_ISLNK(st.st_mode)) {
        autofd int parent = -1;
        const char *name;
        r = path_open_parent_beneath(from, path, &parent, &name);
        return r < 0 ? r : copy_delta_link(parent, name, tree, path, &st);
    }
    if (!S_ISDIR(st.st_mode))
        return 0;
    struct err ignored = ERR_NONE;
    autofd int dir = path_open_beneath(from, path, O_RDONLY | O_DIRECTORY, 0);
    return dir < 0 ? dir : copy_delta_tree(dir, tree, path, &ignored);
}

/* ---- the agent's tree, while the agent does not run ---- */

/* Also true for a process that has closed the file and still has it mapped: the kernel then refuses a read lease. Should the
 * lease be broken, the signal must not end us: SIGURG is ignored by default. */
static bool is_being_written(int fd)
{
    bool is_free = fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0;

    if (is_free)
        fcntl(fd, F_SETLEASE, F_UNLCK);
    return !is_free;
}

/* A file that a process is writing to keeps its inode: otherwise the process would write to a file without a name. */
static int rewrite_in_place(int from, const char *path, int to, const struct stat *st)
{
    autofd int in = path_open_beneath(from, path, O_RDONLY | O_NONBLOCK, 0);
    const struct timespec times[] = { st->st_atim, st->st_mtim };
    int r = in < 0 ? in : ftruncate(to, 0) < 0 ? -errno : copyup_content(in, to, INT64_MAX);

    if (r == 0 && (fchmod(to, st->st_mode & 0777) < 0 || futimens(to, times) < 0))
        r = -errno;
    return r;
}

static int replace_with_copy(int sandbox_fd, int from, int tree, const char *path, const struct stat *st)
{
    autofd int parent = -1;
    const char *name;
    int r = path_open_parent_beneath(tree, path, &parent, &name);

    if (r < 0)
        return r;
    unlinkat(sandbox_fd, STAGED, 0);
    r = copy_delta_file(from, path, sandbox_fd, STAGED, st);
    return r < 0 ? r : renameat(sandbox_fd, STAGED, parent, name) < 0 ? -errno : 0;
}

static int restore_file(int sandbox_fd, int from, int tree, const char *path, const struct stat *st)
{
    autofd int is = path_open_beneath(tree, path, O_RDONLY | O_NONBLOCK, 0), to = -1;

    if (is < 0)
        return is;
    if (!is_being_written(is))
        return replace_with_copy(sandbox_fd, from, tree, path, st);
    cleanup_fd(&is);
    is = -1;
    to = path_open_beneath(tree, path, O_RDWR | O_NONBLOCK, 0);
    return to < 0 ? to : rewrite_in_place(from, path, to, st);
}

/* A directory stays: it may be a working directory, and what is in it has paths of its own. */
static int restore_dir_mode(int tree, const char *path, const struct stat *st)
{
    autofd int dir = path_open_beneath(tree, path, O_RDONLY | O_DIRECTORY, 0);

    return dir < 0 ? dir : fchmod(dir, st->st_mode & 0777) < 0 ? -errno : 0;
}

static int restore_path(int sandbox_fd, int from, int tree, const char *path)
{
    struct stat was, is;
    bool has_both = copy_delta_stat(from, path, &was) && copy_delta_stat(tree, path, &is);

    if (has_both && S_ISREG(was.st_mode) && S_ISREG(is.st_mode))
        return restore_file(sandbox_fd, from, tree, path, &was);
    if (has_both && S_ISDIR(was.st_mode) && S_ISDIR(is.st_mode))
        return restore_dir_mode(tree, path, &was);
    return copy_path_over(from, tree, path);
}

/* ---- the three updates ---- */

struct trees {
    int turn, original, workspace; /* owned */
};

static void trees_done(struct trees *trees)
{
    cleanup_fd(&trees->turn);
    cleanup_fd(&trees->original);
    cleanup_fd(&trees->workspace);
}

static int trees_open(int sandbox_fd, struct trees *ret)
{
    ret->turn = lock_copy(sandbox_fd);
    ret->original = path_open_beneath(sandbox_fd, ORIGINAL, O_RDONLY | O_DIRECTORY, 0);
    ret->workspace = path_open_beneath(sandbox_fd, COPY_DELTA_WORKSPACE, O_RDONLY | O_DIRECTORY, 0);
    return ret->turn < 0 ? ret->turn : ret->original < 0 ? ret->original : ret->workspace < 0 ? ret->workspace : 0;
}

static int wrap_update_error(int r, struct err *err)
{
    return r < 0 ? err_errno(err, r, "bringing the copy up to date") : 0;
}

int copy_delta_revert(int sandbox_fd, int base_fd, const char *const *paths, size_t count, struct err *err)
{
    autodone(trees) struct trees trees = { -1, -1, -1 };
    int r = trees_open(sandbox_fd, &trees);

    for (size_t i = 0; r == 0 && i < count; i++) {
        r = copy_path_over(base_fd, trees.original, paths[i]);
        if (r == 0)
            r = restore_path(sandbox_fd, base_fd, trees.workspace, paths[i]);
    }
    return wrap_update_error(r, err);
}

int copy_delta_accept(int sandbox_fd, const char *const *paths, size_t count, struct err *err)
{
    autodone(trees) struct trees trees = { -1, -1, -1 };
    int r = trees_open(sandbox_fd, &trees);

    for (size_t i = 0; r == 0 && i < count; i++)
        r = copy_path_over(trees.workspace, trees.original, paths[i]);
    return wrap_update_error(r, err);
}

int copy_delta_accept_text(int sandbox_fd, const char *path, const void *bytes, size_t len, mode_t mode, struct err *err)
{
    autodone(trees) struct trees trees = { -1, -1, -1 };
    autofd int parent = -1;
    const char *name, *slash = strrchr(path, '/');
    autofree char *above = slash ? xdupn(path, (size_t) (slash - path)) : NULL;
    int r = trees_open(sandbox_fd, &trees);

    if (r == 0 && above)
        r = path_mkdirs_beneath(trees.original, above, 0755);
    if (r == 0)
        r = path_open_parent_beneath(trees.original, path, &parent, &name);
    if (r == 0)
        r = file_put(sandbox_fd, STAGED, bytes, len, mode & 0777);
    if (r == 0 && renameat(sandbox_fd, STAGED, parent, name) < 0)
        r = -errno;
    return wrap_update_error(r, err);
}
