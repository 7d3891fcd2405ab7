#include "fence/overlay_delta.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/delta.h"
#include "fence/whiteout.h"

#define LENT_FILE "meta/lent"
#define DATA "data"
#define OVERLAY_PREFIX "user.overlay."
#define OVERLAY_OPAQUE OVERLAY_PREFIX "opaque"
#define XATTR_LIST_MAX 65536

bool overlay_delta_is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

bool overlay_delta_is_opaque(int dirfd)
{
    char value;

    return fgetxattr(dirfd, OVERLAY_OPAQUE, &value, 1) == 1 && value == 'y';
}

bool overlay_delta_is_in_overlayfs_form(int meta_fd)
{
    return faccessat(meta_fd, strrchr(LENT_FILE, '/') + 1, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- to overlayfs's format ---- */

static int lend_marker(const struct file_entry *entry)
{
    char name[NAME_MAX + 1];
    int r = whiteout_target(entry->dirfd, entry->name, name);

    if (r <= 0)
        return r;
    /* A marker wins over a file of its name, which is left over from an unfinished step. */
    file_remove_tree(entry->dirfd, name);
    if (mknodat(entry->dirfd, name, S_IFCHR, 0) < 0 && errno != EEXIST)
        return -errno;
    return unlinkat(entry->dirfd, entry->name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static int lend_opaque(const struct file_entry *entry)
{
    autofd int fd = openat(entry->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsetxattr(fd, OVERLAY_OPAQUE, "y", 1, 0) < 0)
        return -errno;
    return unlinkat(entry->dirfd, entry->name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static int lend_entry(const struct file_entry *entry, void *cookie)
{
    (void) cookie;
    if (entry->depth > DEPTH_MAX)
        return FILE_WALK_SKIP;
    if (strcmp(entry->name, WHITEOUT_OPAQUE) == 0)
        return lend_opaque(entry);
    return whiteout_is_reserved(entry->name) ? lend_marker(entry) : 0;
}

static int walk_data(int delta_fd, file_walk_fn fn, struct err *err)
{
    int r = file_walk(delta_fd, DATA, fn, NULL, err);

    return r < 0 && err && err->code == ERR_OK ? err_errno(err, r, "changing the form of the delta") : r;
}

int overlay_delta_to_overlayfs(int delta_fd, struct err *err)
{
    int r = file_put(delta_fd, "meta/" DELTA_UNWITNESSED, "", 0, 0600);

    if (r == 0)
        r = file_put(delta_fd, LENT_FILE, "", 0, 0600);
    return r < 0 ? err_errno(err, r, "writing '" LENT_FILE "'") : walk_data(delta_fd, lend_entry, err);
}

/* ---- and back ---- */

/* The attributes that overlayfs sets for itself would look like the agent's. */
static int strip_notes(int fd)
{
    autofree char *names = xalloc(XATTR_LIST_MAX);
    ssize_t len = flistxattr(fd, names, XATTR_LIST_MAX);

    for (ssize_t at = 0; at < len; at += (ssize_t) strlen(names + at) + 1) {
        if (strncmp(names + at, OVERLAY_PREFIX, strlen(OVERLAY_PREFIX)) == 0 && fremovexattr(fd, names + at) < 0 &&
            errno != ENODATA)
            return -errno;
    }
    return 0;
}

static int return_dir(int fd)
{
    if (overlay_delta_is_opaque(fd)) {
        int r = whiteout_make_opaque(fd);
        if (r < 0)
            return r;
    }
    return strip_notes(fd);
}

static int return_entry(const struct file_entry *entry, void *cookie)
{
    (void) cookie;
    /* Deeper ones are not read anywhere (change.h). */
    if (entry->depth > DEPTH_MAX)
        return FILE_WALK_SKIP;
    if (overlay_delta_is_whiteout(entry->st)) {
        /* The marker is made before the node is removed, so that the base file never shows in between. */
        int r = whiteout_create_in_place(entry->dirfd, entry->name);
        return r == 0 && unlinkat(entry->dirfd, entry->name, 0) < 0 ? -errno : r;
    }
    if (!S_ISDIR(entry->st->st_mode) && !S_ISREG(entry->st->st_mode))
        return 0;
    /* Reading a file without read permission would take a change of its mode, which would be a change by us. */
    autofd int fd = path_open_beneath(entry->dirfd, entry->name, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return fd == -EACCES ? 0 : fd;
    return S_ISDIR(entry->st->st_mode) ? return_dir(fd) : strip_notes(fd);
}

int overlay_delta_from_overlayfs(int delta_fd, struct err *err)
{
    autofd int data = -1;
    int r;

    if (faccessat(delta_fd, LENT_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    data = path_open_beneath(delta_fd, DATA, O_RDONLY | O_DIRECTORY, 0);
    r = data < 0 ? data : return_dir(data);
    if (r < 0)
        return err_errno(err, r, "changing the form of the delta");
    r = walk_data(delta_fd, return_entry, err);
    if (r == 0 && unlinkat(delta_fd, LENT_FILE, 0) < 0 && errno != ENOENT)
        r = err_errno(err, -errno, "removing '" LENT_FILE "'");
    return r;
}
