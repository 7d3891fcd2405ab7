#include "base/root_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/path.h"

#define LINKS_MAX 40 /* the kernel's limit */

void root_dir_done(struct root_dir *root)
{
    cleanup_fd(&root->fd);
    free(root->given);
    free(root->real);
    *root = ROOT_DIR_NONE;
}

int root_dir_open(const char *path, struct root_dir *ret)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    int r = path_clean(path, strlen(path), &clean);

    if (r < 0)
        return r;
    ret->fd = path_open_trusted(clean.data, O_PATH | O_DIRECTORY);
    if (ret->fd < 0)
        return ret->fd;
    ret->given = xdup(clean.data);
    ret->real = path_of_open(ret->fd);
    return ret->real ? 0 : -ENOENT;
}

/* Returns the part of the path behind the root's name, or NULL if the path is not inside. */
static const char *root_dir_relative(const struct root_dir *root, const char *path)
{
    const char *name = path_is_beneath(root->given, path) ? root->given : path_is_beneath(root->real, path) ? root->real : NULL;

    if (!name)
        return NULL;
    path += strcmp(name, "/") == 0 ? 0 : strlen(name);
    return path[strspn(path, "/")] ? path + strspn(path, "/") : ".";
}

/* Replaces the first symlink in `rest` by its target and writes the resulting path. Returns 1, or 0 if there is no symlink. */
static int expand_link(const struct root_dir *root, const char *rest, struct buf *path)
{
    const char *at = rest, *end = rest + strlen(rest), *name = rest;
    struct path_component c;

    for (; path_next_component(&at, end, &c); name = at) {
        autofree char *prefix = xdupn(rest, (size_t) (at - rest));
        autofree char *above = xdupn(rest, (size_t) (name - rest));
        autofd int fd = path_open_beneath(root->fd, prefix, O_PATH, 0);
        char target[PATH_MAX];
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
            return fd < 0 ? fd : -errno;
        if (!S_ISLNK(st.st_mode))
            continue;
        ssize_t len = readlinkat(fd, "", target, sizeof(target));
        if (len <= 0 || (size_t) len == sizeof(target))
            return len < 0 ? -errno : -ENAMETOOLONG;
        autofree char *whole = *target == '/' ? xprintf("%.*s/%s", (int) len, target, at)
                                              : xprintf("%s/%s/%.*s/%s", root->given, above, (int) len, target, at);
        return path_clean(whole, strlen(whole), path) < 0 ? -EXDEV : 1;
    }
    return 0;
}

int root_dir_reach(const struct root_dir *root, const char *path, int flags)
{
    autodone(buf) struct buf clean = BUF_EMPTY;

    buf_add_str(&clean, path);
    for (int i = 0; i < LINKS_MAX; i++) {
        const char *rest = root_dir_relative(root, clean.data);
        int fd = rest ? path_open_beneath(root->fd, rest, flags, 0) : -EXDEV, r;
        struct stat st;
        bool is_link = fd >= 0 && (flags & O_PATH) && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);

        if (is_link)
            close(fd);
        else if (fd != -ELOOP && fd != -ENOTDIR)
            return fd;
        autofree char *copy = xdup(rest);
        r = expand_link(root, copy, &clean);
        if (r <= 0)
            return r < 0 ? r : fd;
    }
    return -ELOOP;
}

int root_dirs_reach(const char *const *roots, const char *path, int flags)
{
    int fd = -EPERM;

    if (!roots) {
        fd = open(path, flags | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
    }
    for (; *roots && fd == -EPERM; roots++) {
        autodone(root_dir) struct root_dir root = ROOT_DIR_NONE;

        if (root_dir_open(*roots, &root) < 0)
            continue;
        fd = root_dir_reach(&root, path, flags);
        fd = fd == -EXDEV ? -EPERM : fd;
    }
    return fd;
}
