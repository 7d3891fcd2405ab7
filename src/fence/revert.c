#include "fence/revert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/casefold.h"
#include "fence/whiteout.h"
#include "fence/xattr.h"

#define REPLACE_DIR "replace"

/*
 * Walks along a path in the delta. If a directory above is deleted or opaque, the base can show at the path only when that
 * directory is opened: the other names that the base has in it get markers, directories of the delta that would merge are
 * marked opaque themselves, and then its own mark is removed. Until that last step nothing shows that did not show before.
 */
struct revert_walk {
    const struct revert_dirs *at;
    const char *path;
    struct revert_trace *trace;
    unsigned temps;
    bool syncs; /* each directory is synced; otherwise revert_end() syncs everything */
};

/* Returns 1, 0, or -errno if it is unknown. */
static int revert_stat_base(const struct revert_dirs *at, const char *path, struct stat *ret)
{
    autofd int fd = at->base_fd < 0 ? -ENOENT : path_open_beneath(at->base_fd, path, O_PATH, 0);
    int r = fd < 0 ? fd : casefold_check_path(at->base_fd, path);

    if (r < 0)
        return path_is_absent(r) ? 0 : r;
    return fstat(fd, ret) < 0 ? -errno : 1;
}

static int revert_put_marker(struct revert_walk *w, int dirfd, const char *name)
{
    char temp[32];

    snprintf(temp, sizeof(temp), "drop-%u", w->temps++);
    return whiteout_create_by(w->at->work_fd, temp, dirfd, name);
}

/* Makes a directory in the delta under a name that is deleted, or that an opaque parent hides. It is opaque itself, so nothing
 * shows through it yet; a marker that is still beside it wins. */
static int make_hiding_dir(struct revert_walk *w, int dirfd, const char *name, const struct stat *base)
{
    char temp[32];
    autofd int made = -1;
    int r;

    snprintf(temp, sizeof(temp), "drop-%u", w->temps++);
    file_remove_tree(w->at->work_fd, temp);
    if (mkdirat(w->at->work_fd, temp, 0700) < 0)
        return -errno;
    made = path_open_beneath(w->at->work_fd, temp, O_RDONLY | O_DIRECTORY, 0);
    r = made < 0 ? made : whiteout_make_opaque(made);
    if (r == 0 && fchmod(made, base->st_mode & 01777) < 0)
        r = -errno;
    if (r == 0)
        futimens(made, (struct timespec[]){ base->st_atim, base->st_mtim });
    if (r == 0 && renameat(w->at->work_fd, temp, dirfd, name) < 0)
        r = -errno;
    return r;
}

/* Hides a name that the base has in a directory which is about to be opened. */
static int hide_base_name(struct revert_walk *w, int dirfd, int base_fd, const char *name)
{
    struct stat st, base;

    if (fstatat(base_fd, name, &base, AT_SYMLINK_NOFOLLOW) < 0 || whiteout_exists(dirfd, name))
        return 0;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? revert_put_marker(w, dirfd, name) : -errno;
    if (!S_ISDIR(st.st_mode) || !S_ISDIR(base.st_mode))
        return 0;
    autofd int sub = path_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
    return sub < 0 ? sub : whiteout_make_opaque(sub);
}

/* `next` is the next name of the path; if it is not the last, the directory has been made there by now. */
static int revert_open_to_base(struct revert_walk *w, int dirfd, int base_fd, const char *next, size_t next_len, bool is_last)
{
    autodirectory dir = directory_open(base_fd);
    int r = 0;

    if (!dir)
        return -errno;
    for (const struct dirent *d; r == 0 && (d = directory_next(dir));) {
        if (whiteout_is_reserved(d->d_name))
            continue;
        bool is_next = strlen(d->d_name) == next_len && memcmp(d->d_name, next, next_len) == 0;
        if (!is_next || !is_last)
            r = hide_base_name(w, dirfd, base_fd, d->d_name);
    }
    fault("drop-veiled");
    if (r == 0 && fsync(dirfd) < 0)
        r = -errno;
    if (r == 0 && unlinkat(dirfd, WHITEOUT_OPAQUE, 0) < 0 && errno != ENOENT)
        r = -errno;
    fault("drop-opened");
    return r == 0 && fsync(dirfd) < 0 ? -errno : r;
}

/* Prepares the directory `path` of `len` bytes in the delta. Returns 0 if it exists and shows the base, 1 if the walk ends here
 * because the delta has something else or nothing under the name. */
static int open_parent_dir(struct revert_walk *w, size_t parent_len, size_t len, bool leads_to_base)
{
    autofree char *parent = parent_len ? xdupn(w->path, parent_len) : xdup("."), *here = xdupn(w->path, len);
    autofree char *name = xdup(here + (parent_len ? parent_len + 1 : 0));
    autofd int up = path_open_beneath(w->at->data_fd, parent, O_RDONLY | O_DIRECTORY, 0), dir = -1, base_dir = -1;
    struct stat st, base;
    bool is_deleted, is_there;

    if (up < 0)
        return up == -ENOENT ? 1 : up;
    is_deleted = whiteout_exists(up, name);
    is_there = fstatat(up, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && !is_deleted && !S_ISDIR(st.st_mode))
        return 1;
    if (!is_there && !is_deleted)
        return 1;
    if (!leads_to_base)
        return is_there && !is_deleted ? 0 : 1;
    int r = revert_stat_base(w->at, here, &base);
    if (r < 0)
        return r;
    if (r == 0 || !S_ISDIR(base.st_mode))
        return 1;
    if (is_deleted || !is_there) {
        /* A file beside its marker is a leftover. */
        r = is_there ? file_remove_tree(up, name) : 0;
        if (r == 0)
            r = make_hiding_dir(w, up, name, &base);
        fault("drop-dir-made");
        if (r == 0)
            r = whiteout_remove(up, name);
        if (r == 0 && fsync(up) < 0)
            r = -errno;
        if (r < 0)
            return r;
        if (w->trace->opened_from == REVERT_NONE)
            w->trace->opened_from = len;
    }
    dir = path_open_beneath(up, name, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return dir;
    if (!whiteout_is_opaque(dir))
        return 0;
    base_dir = path_open_beneath(w->at->base_fd, here, O_RDONLY | O_DIRECTORY, 0);
    if (base_dir < 0)
        return base_dir;
    if (w->trace->opened_from == REVERT_NONE)
        w->trace->opened_from = len;
    const char *next = w->path + len + 1;
    size_t next_len = strcspn(next, "/");
    return revert_open_to_base(w, dir, base_dir, next, next_len, next[next_len] == 0);
}

static int revert_remove_at(struct revert_walk *w)
{
    autofd int dir = -1;
    const char *name;
    char temp[32];
    struct stat st;
    int r = path_open_parent_beneath(w->at->data_fd, w->path, &dir, &name);

    if (r < 0)
        return r == -ENOENT || r == -ENOTDIR ? 0 : r;
    snprintf(temp, sizeof(temp), "drop-%u", w->temps++);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        /* In one step, whatever is in it. */
        file_remove_tree(w->at->work_fd, temp);
        r = S_ISDIR(st.st_mode) ? renameat(dir, name, w->at->work_fd, temp) : unlinkat(dir, name, 0);
        if (r < 0)
            return -errno;
        fault("drop-moved");
        file_remove_tree(w->at->work_fd, temp);
    }
    r = whiteout_remove(dir, name);
    fault("drop-removed");
    return r;
}

/* Returns true if a directory along the path, up to the one of `len` bytes, is opaque or missing. */
static bool revert_parents_hide_base(struct revert_walk *w, size_t len)
{
    for (;;) {
        autofree char *here = len ? xdupn(w->path, len) : xdup(".");
        autofd int fd = path_open_beneath(w->at->data_fd, here, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0 || whiteout_is_opaque(fd))
            return true;
        if (len == 0)
            return false;
        while (len > 0 && w->path[--len] != '/')
            continue;
    }
}

/* Removes directories of the delta that only held what was removed, and record nothing themselves. Syncs the first one that
 * stays, so that the removal lasts. */
static int remove_empty_parents(struct revert_walk *w)
{
    bool may_go = true;

    for (size_t len = strlen(w->path); len > 0;) {
        while (len > 0 && w->path[--len] != '/')
            continue;
        autofree char *here = len ? xdupn(w->path, len) : xdup(".");
        autofd int fd = path_open_beneath(w->at->data_fd, here, O_RDONLY | O_DIRECTORY, 0);
        struct stat st, base;
        if (fd < 0)
            continue;
        may_go = may_go && len > 0 && fstat(fd, &st) == 0 && revert_stat_base(w->at, here, &base) > 0 &&
                 S_ISDIR(base.st_mode) && ((st.st_mode ^ base.st_mode) & 0777) == 0 && !xattr_any(fd) &&
                 !revert_parents_hide_base(w, len);
        if (may_go && path_unlink_beneath(w->at->data_fd, here, AT_REMOVEDIR) == 0) {
            w->trace->removed_from = len;
            continue;
        }
        return w->syncs && fsync(fd) < 0 ? -errno : 0;
    }
    return 0;
}

static int revert_replace_at(const struct revert_dirs *at, const char *path, size_t index)
{
    char staged[64];
    const char *name;
    autofd int dir = -1, was = -1, now = -1;
    struct stat st;
    int r = path_open_parent_beneath(at->data_fd, path, &dir, &name);

    snprintf(staged, sizeof(staged), REPLACE_DIR "/%zu", index);
    now = path_open_beneath(at->meta_fd, staged, O_RDWR | O_NONBLOCK, 0);
    if (now == -ENOENT)
        return 0; /* done before */
    if (r < 0 || now < 0)
        return r < 0 ? r : now;
    was = path_open_beneath(dir, name, O_RDONLY | O_NONBLOCK, 0);
    if (was < 0 || fstat(was, &st) < 0 || !S_ISREG(st.st_mode))
        return was < 0 ? was : -ENOENT;
    xattr_copy(was, now);
    if (fchmod(now, st.st_mode & 01777) < 0 || fchown(now, st.st_uid, st.st_gid) < 0)
        return -errno;
    fault("drop-replacing");
    if (renameat(at->meta_fd, staged, dir, name) < 0)
        return -errno;
    fault("drop-replaced");
    return file_fsync_dir(dir);
}

int revert_perform(const struct revert_dirs *at, const struct revert_list *list, size_t index, struct revert_trace *ret)
{
    const struct revert *revert = &list->items[index];
    struct revert_walk w = { .at = at, .path = revert->path, .trace = ret, .syncs = list->count <= REVERT_SYNC_EACH_MAX };
    struct stat base;
    size_t parent_len = 0;
    bool leads_to_base;
    int r = 0;

    *ret = (struct revert_trace){ REVERT_NONE, REVERT_NONE };
    if (revert->replaces)
        return revert_replace_at(at, revert->path, index);
    r = revert_stat_base(at, revert->path, &base);
    if (r < 0)
        return r;
    leads_to_base = r > 0;
    r = 0;
    for (size_t len = strcspn(revert->path, "/"); r == 0 && revert->path[len];
         len += 1 + strcspn(revert->path + len + 1, "/")) {
        r = open_parent_dir(&w, parent_len, len, leads_to_base);
        parent_len = len;
    }
    if (r == 0)
        r = revert_remove_at(&w);
    else if (r == 1)
        return 0;
    return r == 0 ? remove_empty_parents(&w) : r;
}
