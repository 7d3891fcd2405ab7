#include "fence/change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/directory.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copy_delta.h"
#include "fence/copyup.h"
#include "fence/delta.h"
#include "fence/fence_int.h"
#include "fence/overlay_delta.h"
#include "fence/whiteout.h"

struct change_walk {
    int base_fd; /* owned; -1: the base is gone, everything counts as added */
    struct delta_info about;
    struct buf roots; /* text of meta/roots */
    struct buf path;
    change_fn fn;
    void *cookie;
};

const char *change_kind_name(enum change_kind kind)
{
    static const char *const names[] = { "added", "modified", "mode", "deleted", "cut" };

    return names[kind];
}

static int report_change(struct change_walk *w, enum change_kind kind, const struct stat *st)
{
    struct change change = { kind, w->path.data, st->st_mode, (uint64_t) (S_ISREG(st->st_mode) ? st->st_size : 0) };

    return w->fn(&change, w->cookie);
}

/* The result must not depend on whether a descriptor was available: the functions below return 1, 0 or -errno. */

static int change_stat_base(struct change_walk *w, struct stat *ret_st)
{
    autofd int fd = w->base_fd < 0 ? -ENOENT : path_open_beneath(w->base_fd, w->path.data, O_PATH, 0);

    if (fd < 0)
        return path_is_absent(fd) ? 0 : fd;
    return fstat(fd, ret_st) < 0 ? -errno : 1;
}

static int same_target(struct change_walk *w, int dirfd, const char *name)
{
    char a[PATH_MAX], b[PATH_MAX];
    autofd int link = path_open_beneath(w->base_fd, w->path.data, O_PATH, 0);

    if (link < 0)
        return path_is_absent(link) ? 0 : link;
    ssize_t n = readlinkat(dirfd, name, a, sizeof(a)), m = readlinkat(link, "", b, sizeof(b));
    return n >= 0 && n == m && memcmp(a, b, (size_t) n) == 0;
}

static int same_content(struct change_walk *w, int dirfd, const char *name, const struct stat *now, const struct stat *was)
{
    if ((now->st_mode & S_IFMT) != (was->st_mode & S_IFMT))
        return 0;
    if (S_ISLNK(now->st_mode))
        return same_target(w, dirfd, name);
    if (!S_ISREG(now->st_mode))
        return 1;
    if (now->st_size != was->st_size)
        return 0;
    autofd int a = path_open_beneath(dirfd, name, O_RDONLY | O_NONBLOCK, 0);
    autofd int b = path_open_beneath(w->base_fd, w->path.data, O_RDONLY | O_NONBLOCK, 0);
    if (a < 0 || b < 0)
        return path_is_absent(a < 0 ? a : b) ? 0 : a < 0 ? a : b;
    return copyup_same_content(a, b);
}

static int change_compare(struct change_walk *w, int dirfd, const char *name, const struct stat *now)
{
    struct stat was;
    int r = change_stat_base(w, &was);

    if (r <= 0)
        return r < 0 ? r : report_change(w, CHANGE_ADDED, now);
    r = same_content(w, dirfd, name, now, &was);
    if (r <= 0)
        return r < 0 ? r : report_change(w, CHANGE_MODIFIED, now);
    return !S_ISLNK(now->st_mode) && ((now->st_mode ^ was.st_mode) & 0777) ? report_change(w, CHANGE_MODE, now) : 0;
}

static size_t change_walk_push(struct change_walk *w, const char *name)
{
    size_t len = w->path.len;

    if (len > 0)
        buf_add_char(&w->path, '/');
    buf_add_str(&w->path, name);
    return len;
}

static void change_walk_pop(struct change_walk *w, size_t len)
{
    w->path.len = len;
    if (w->path.data)
        w->path.data[len] = 0;
}

/* Returns 1 for an empty directory that only a rule asked for, or one that contains only such directories: it is no change. */
static int is_empty_rule_dir(struct change_walk *w, int fd)
{
    bool only_promised = delta_is_root(&w->roots, w->path.data, w->path.len);
    autodirectory dir = only_promised ? directory_open(fd) : NULL;

    if (only_promised && !dir)
        return -errno;
    for (const struct dirent *d; only_promised && (d = directory_next(dir));)
        only_promised = d->d_name[0] == '.' || d->d_type == DT_DIR;
    return only_promised;
}

/* Reports what the base has in an opaque directory and the delta has not. */
static int report_uncovered(struct change_walk *w, int fd)
{
    int base = path_open_beneath(w->base_fd, w->path.len ? w->path.data : ".", O_RDONLY | O_DIRECTORY, 0), r = 0;
    autodirectory dir = directory_take(base);
    struct stat st;

    if (!dir)
        return w->base_fd < 0 || path_is_absent(-errno) ? 0 : -errno;
    for (const struct dirent *d; r == 0 && (d = directory_next(dir));) {
        if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
            fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        size_t len = change_walk_push(w, d->d_name);
        r = report_change(w, CHANGE_DELETED, &st);
        change_walk_pop(w, len);
    }
    return r;
}

static int report_directory(struct change_walk *w, int fd, const struct stat *st)
{
    struct stat was;
    int r = change_stat_base(w, &was);

    if (r == 0) {
        r = is_empty_rule_dir(w, fd);
        return r == 0 ? report_change(w, CHANGE_ADDED, st) : r < 0 ? r : 0;
    }
    if (r < 0)
        return r;
    if (!S_ISDIR(was.st_mode))
        return report_change(w, CHANGE_MODIFIED, st);
    return (was.st_mode ^ st->st_mode) & 0777 ? report_change(w, CHANGE_MODE, st) : 0;
}

/* A directory deeper than a fence allows was made without one (overlay_delta.h, copy_delta.h), and is not walked. */
static int change_on_directory(struct change_walk *w, const struct file_entry *entry)
{
    autofd int fd = -1;
    int r;

    if (entry->depth > DEPTH_MAX) {
        struct change cut = { CHANGE_TOO_DEEP, w->path.data, entry->st->st_mode, 0 };
        r = w->fn(&cut, w->cookie);
        return r == 0 ? FILE_WALK_SKIP : r;
    }
    fd = path_open_beneath(entry->dirfd, entry->name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) /* the delta may be in use: what was removed or moved (EXDEV) meanwhile is no change */
        return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV ? FILE_WALK_SKIP : fd;
    r = report_directory(w, fd, entry->st);
    if (r == 0 && (whiteout_is_opaque(fd) || overlay_delta_is_opaque(fd)))
        r = report_uncovered(w, fd);
    return r;
}

static int report_deleted(struct change_walk *w, const char *name)
{
    size_t len = change_walk_push(w, name);
    struct stat was;
    int r = change_stat_base(w, &was);

    if (r > 0)
        r = report_change(w, CHANGE_DELETED, &was);
    change_walk_pop(w, len);
    return r;
}

static int change_on_entry(const struct file_entry *entry, void *cookie)
{
    struct change_walk *w = cookie;

    change_walk_pop(w, entry->path_len - strlen(entry->name) - (entry->depth > 1));
    if (whiteout_is_reserved(entry->name)) {
        char name[NAME_MAX + 1];
        int r = whiteout_target(entry->dirfd, entry->name, name);
        return r > 0 ? report_deleted(w, name) : r;
    }
    if (whiteout_exists(entry->dirfd, entry->name))
        return FILE_WALK_SKIP;
    if (overlay_delta_is_whiteout(entry->st))
        return report_deleted(w, entry->name);
    change_walk_push(w, entry->name);
    return S_ISDIR(entry->st->st_mode) ? change_on_directory(w, entry)
                                       : change_compare(w, entry->dirfd, entry->name, entry->st);
}

int change_each(const char *delta_path, change_fn fn, void *cookie, struct err *err)
{
    struct change_walk w = { .base_fd = -1, .fn = fn, .cookie = cookie };
    int r = delta_info_open(delta_path, &w.about, err);

    if (r < 0)
        return r;
    w.base_fd = path_open_real(w.about.base_path, O_PATH | O_DIRECTORY);
    if (w.base_fd >= 0 && (r = delta_info_check_base(&w.about, w.base_fd, err)) < 0) {
        close(w.base_fd);
        delta_info_done(&w.about);
        return r;
    }
    r = w.base_fd < 0 && !path_is_absent(w.base_fd) ? w.base_fd : file_read(w.about.meta_fd, "roots", 1 << 20, &w.roots);
    if (r == -ENOENT || r == -EFBIG || r == -EINVAL) {
        buf_clear(&w.roots);
        r = 0;
    }
    /* Sorted, so that the order is stable. */
    if (r == 0)
        r = file_walk_sorted(w.about.data_fd, ".", change_on_entry, &w, NULL);
    if (r < 0)
        err_errno(err, r, "reading delta '%s'", delta_path);
    if (w.base_fd >= 0)
        close(w.base_fd);
    buf_done(&w.roots);
    buf_done(&w.path);
    delta_info_done(&w.about);
    return r;
}

int fence_each_change(struct fence *f, change_fn fn, void *cookie, struct err *err)
{
    return change_each(f->delta_path, fn, cookie, err);
}

/* A sandbox that works on a copy has the copy beside its delta. */
static int refresh_copy_delta(const char *delta_path, const char *base_path, int base_fd, struct err *err)
{
    const char *slash = strrchr(delta_path, '/');
    autofree char *dir_path = slash ? xdupn(delta_path, (size_t) (slash - delta_path)) : xdup(".");
    autofd int dir = open(*dir_path ? dir_path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return dir < 0 ? err_errno(err, -errno, "'%s'", dir_path) : copy_delta_refresh(dir, delta_path, base_path, base_fd, err);
}

/* Returns 0 for a delta that is not bound to one base directory: its base is opened by name, through symlinks. */
static int open_bound_base(const struct delta_info *about, struct err *err)
{
    return about->is_base_bound ? delta_info_open_base(about, O_RDONLY, err) : 0;
}

int change_recover(const char *delta_path, struct err *err)
{
    struct delta_info about;
    struct stat st;
    bool is_begun;
    int base = 0;
    int r = delta_info_open(delta_path, &about, err);

    if (r < 0)
        return r;
    is_begun = fstatat(about.meta_fd, "journal", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0;
    if (is_begun || fstatat(about.meta_fd, "drop", &st, AT_SYMLINK_NOFOLLOW) == 0 ||
        overlay_delta_is_in_overlayfs_form(about.meta_fd)) {
        base = open_bound_base(&about, err);
        struct fence_config config = { .base_path = about.base_path,
                                       .base_fd = base,
                                       .delta_path = delta_path,
                                       .keeps_other_base = true,
                                       .is_at_rest = true };
        r = base < 0 ? base : fence_recover_delta(&config, err);
        r = r == -EBUSY ? 0 : r;
    }
    if (r == 0 && faccessat(about.meta_fd, COPY_DELTA_MARK, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        if (base <= 0)
            base = open_bound_base(&about, err);
        r = base < 0 ? base : refresh_copy_delta(delta_path, about.base_path, base, err);
    }
    if (base > 0)
        close(base);
    delta_info_done(&about);
    return r;
}

/* ---- export ---- */

struct export
{
    int from, to; /* borrowed */
    FILE *deleted;
};

static int export_file(struct export *x, const struct change *change)
{
    autofd int from = path_open_beneath(x->from, change->path, O_RDONLY | O_NONBLOCK, 0);
    autofd int to = from < 0 ? -1 : path_open_beneath(x->to, change->path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    int r;

    if (from < 0 || to < 0)
        return from < 0 ? from : to;
    r = copyup_content(from, to, INT64_MAX);
    if (r == 0 && fchmod(to, change->mode & 0777) < 0)
        r = -errno;
    return r;
}

static int export_link(struct export *x, const struct change *change)
{
    char target[PATH_MAX];
    const char *name;
    autofd int link = path_open_beneath(x->from, change->path, O_PATH, 0), parent = -1;
    ssize_t n = link < 0 ? -1 : readlinkat(link, "", target, sizeof(target) - 1);
    int r = path_open_parent_beneath(x->to, change->path, &parent, &name);

    if (n < 0)
        return -EIO;
    target[n] = 0;
    return r < 0 ? r : symlinkat(target, parent, name) < 0 ? -errno : 0;
}

static int export_change(const struct change *change, void *cookie)
{
    struct export *x = cookie;
    const char *slash = strrchr(change->path, '/');
    autofree char *parent = slash ? xdupn(change->path, (size_t) (slash - change->path)) : NULL;
    int r = parent && change->kind != CHANGE_DELETED ? path_mkdirs_beneath(x->to, parent, 0755) : 0;

    if (r < 0 || change->kind == CHANGE_TOO_DEEP)
        return r;
    if (change->kind == CHANGE_DELETED)
        return fprintf(x->deleted, "%s%c", change->path, 0) < 0 ? -EIO : 0;
    if (S_ISDIR(change->mode))
        return path_mkdirs_beneath(x->to, change->path, change->mode & 0777);
    if (S_ISREG(change->mode))
        return export_file(x, change);
    return S_ISLNK(change->mode) ? export_link(x, change) : 0;
}

static int open_export_target(const char *to, int *ret_fd, struct err *err)
{
    if (mkdir(to, 0755) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "making '%s'", to);
    *ret_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0)
        return err_errno(err, -errno, "opening '%s'", to);
    autodirectory dir = directory_open(*ret_fd);
    return directory_next(dir) ? err_set(err, ERR_FAILED_PRECONDITION, -ENOTEMPTY, "'%s' is not empty", to) : 0;
}

int change_export(const char *delta_path, const char *to, struct err *err)
{
    struct delta_info about = DELTA_INFO_NONE;
    autofd int to_fd = -1;
    autofree char *deleted_path = xprintf("%s.deleted", to);
    autofile FILE *deleted = NULL;
    int r = delta_info_open(delta_path, &about, err);

    if (r == 0)
        r = open_export_target(to, &to_fd, err);
    if (r == 0 && !(deleted = fopen(deleted_path, "we")))
        r = err_errno(err, -errno, "writing '%s'", deleted_path);
    if (r == 0) {
        struct export x = { about.data_fd, to_fd, deleted };
        r = change_each(delta_path, export_change, &x, err);
    }
    if (r == 0 && fflush(deleted) != 0)
        r = err_errno(err, -errno, "writing '%s'", deleted_path);
    delta_info_done(&about);
    return r;
}

int change_discard(const char *delta_path, struct err *err)
{
    struct delta_info about;
    autofd int lock = -1, fd = -1;
    int r = delta_info_open(delta_path, &about, err);

    if (r < 0)
        return r;
    lock = path_open_beneath(about.meta_fd, "lock", O_RDWR | O_CREAT, 0600);
    delta_info_done(&about);
    if (lock < 0)
        return err_errno(err, lock, "locking delta '%s'", delta_path);
    if (flock(lock, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "delta '%s' is in use", delta_path);
    fd = open(delta_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "opening delta '%s'", delta_path);
    /* The format marker is in meta, which goes last: if this is interrupted, the rest is still a delta and can be discarded
     * again. */
    r = file_remove_tree(fd, "data");
    if (r == 0)
        r = file_remove_tree(fd, "work");
    if (r == 0)
        r = file_remove_tree(fd, "meta");
    if (r == 0 && rmdir(delta_path) < 0)
        r = -errno;
    return r < 0 ? err_errno(err, r, "removing delta '%s'", delta_path) : 0;
}
