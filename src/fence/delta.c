#include "fence/delta.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/directory.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/fence_int.h"
#include "fence/overlay_delta.h"

#define FORMAT "agentfense-delta 1\n"

static const char *const nothing[] = { NULL };

/* Returns 1 if a directory holds nothing but these names, which end with NULL, or if it does not exist. */
static int holds_only(int fd, const char *path, const char *const *names)
{
    autodirectory dir = directory_take(path_open_beneath(fd, path, O_RDONLY | O_DIRECTORY, 0));
    int holds = 1;

    if (!dir)
        return errno == ENOENT ? 1 : -errno;
    for (const struct dirent *d; holds && (d = directory_next(dir));) {
        const char *const *name = names;

        while (*name && strcmp(*name, d->d_name) != 0)
            name++;
        holds = *name != NULL;
    }
    return holds;
}

/* Returns 1 for a directory that is empty or holds only what delta_make_format() creates before it is killed: no format yet,
 * and no changes. */
static int is_blank_delta(int fd)
{
    static const char *const parts[] = { "lost+found", "meta", "work", "data", NULL };
    int r;

    if (faccessat(fd, "meta/format", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    r = holds_only(fd, ".", parts);
    if (r > 0)
        r = holds_only(fd, "data", nothing);
    return r > 0 ? holds_only(fd, "work", nothing) : r;
}

static int delta_check_format(int delta_fd, const char *path, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = file_read(delta_fd, "meta/format", 256, &text);

    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        return err_errno(err, r, "reading the format of delta '%s'", path);
    if (r < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOTEMPTY, "delta '%s' is not empty and was not made by agentfense",
                       path);
    if (text.len != strlen(FORMAT) || memcmp(text.data, FORMAT, text.len) != 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EPROTO, "delta '%s' has a format this version does not know", path);
    return 0;
}

/* <device> <inode> <time the delta was made>; if bound to this directory also <time the directory was made> <boot>; a newline,
 * the path. */
static int delta_write_base(int delta_fd, const struct delta_info *about)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    buf_addf(&text, "%" PRIu64 " %" PRIu64 " %" PRId64, about->base.dev, about->base.ino, about->made_ns);
    if (about->is_base_bound)
        buf_addf(&text, " %" PRId64 " %" PRIu64, about->base.birth_ns, about->base.boot);
    buf_addf(&text, "\n%s\n", about->base_path);
    return file_put(delta_fd, "meta/base", text.data, text.len, 0600);
}

/* The format marker comes last: all of this may be repeated, so a half-made delta is completed later. */
static int delta_make_format(int delta_fd, int base_fd, const struct delta_info *about, struct err *err)
{
    struct stat base;
    int r = path_mkdirs_beneath(delta_fd, "meta/pre", 0700);

    if (r == 0)
        r = path_mkdirs_beneath(delta_fd, "work", 0700);
    if (r == 0)
        r = path_mkdirs_beneath(delta_fd, "data", 0755);
    if (r == 0 && (fstat(base_fd, &base) < 0 || fchmodat(delta_fd, "data", (base.st_mode & 0777) | 0700, 0) < 0))
        r = -errno;
    if (r == 0)
        r = delta_write_base(delta_fd, about);
    if (r == 0)
        r = file_put(delta_fd, "meta/format", FORMAT, strlen(FORMAT), 0600);
    return r < 0 ? err_errno(err, r, "making the delta") : 0;
}

static int delta_read_base(int delta_fd, struct delta_info *ret)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    struct dir_identity *base = &ret->base;
    int at = 0, more = 0, r = file_read(delta_fd, "meta/base", PATH_MAX + 128, &text);

    if (r < 0)
        return r;
    if (!text.data ||
        sscanf(text.data, "%" SCNu64 " %" SCNu64 " %" SCNd64 "%n", &base->dev, &base->ino, &ret->made_ns, &at) != 3)
        return -EBADMSG;
    ret->is_base_bound = text.data[at] == ' ';
    if (ret->is_base_bound && sscanf(text.data + at, " %" SCNd64 " %" SCNu64 "%n", &base->birth_ns, &base->boot, &more) != 2)
        return -EBADMSG;
    at += more;
    if (text.data[at] != '\n')
        return -EBADMSG;
    if (text.data[text.len - 1] == '\n')
        text.data[text.len - 1] = 0;
    ret->base_path = xdup(text.data + at + 1);
    return 0;
}

int delta_info_check_base(const struct delta_info *about, int base_fd, struct err *err)
{
    struct dir_identity now;
    int r = dir_identity_read(base_fd, &now);

    if (r < 0)
        return err_errno(err, r, "'%s', which the sandbox was made over", about->base_path);
    if (!about->is_base_bound || dir_identity_is_same(&about->base, &now))
        return 0;
    return err_set_reason(
        err,
        err_set(err, ERR_FAILED_PRECONDITION, -EXDEV,
                "'%s' is another directory now than the one that the sandbox was made over; put that one back "
                "in its place, or make a new sandbox over this one",
                about->base_path),
        "BASE_REPLACED");
}

int delta_info_open_base(const struct delta_info *about, int flags, struct err *err)
{
    autofd int fd = path_open_real(about->base_path, flags | O_DIRECTORY);
    int r;

    if (fd < 0)
        return err_errno(err, fd, "opening '%s', which the sandbox was made over", about->base_path);
    r = delta_info_check_base(about, fd, err);
    return r < 0 ? r : steal_fd(&fd);
}

static int delta_refuse_base(const struct fence *f, const struct delta_info *about, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    /* The text comes from a file and may contain any bytes. */
    buf_add_char(&shown, '\'');
    buf_add_escaped(&shown, about->base_path, strlen(about->base_path));
    return err_set(err, ERR_FAILED_PRECONDITION, -EXDEV, "delta '%s' was made over %s', not over '%s'", f->delta_path,
                   shown.data, f->base_path);
}

/* Checks that the base is the directory that the delta was made over. A delta that is not bound accepts it by number or by
 * path: a codebase that was moved or restored keeps one of the two. A delta of a version that did not record the directory gets
 * the record here. */
static int delta_check_base(struct fence *f, int delta_fd, const struct fence_config *config, struct err *err)
{
    struct delta_info about = DELTA_INFO_NONE;
    struct dir_identity now;
    int r = delta_read_base(delta_fd, &about);

    if (r == 0)
        r = dir_identity_read(f->base_fd, &now);
    if (r < 0) {
        delta_info_done(&about);
        return err_errno(err, r, "reading which base the delta is of");
    }
    /* The base's own times would reveal when something hidden came or went in it: directories show when the delta was made. */
    if (!f->version_ns)
        f->version_ns = about.made_ns;
    bool has_path = strcmp(about.base_path, f->base_path) == 0;
    if (!config->keeps_other_base && about.is_base_bound)
        r = has_path ? delta_info_check_base(&about, f->base_fd, err) : delta_refuse_base(f, &about, err);
    else if (!config->keeps_other_base && !has_path && (about.base.dev != now.dev || about.base.ino != now.ino))
        r = delta_refuse_base(f, &about, err);
    if (r == 0 && config->base_fd > 0 && has_path && !about.is_base_bound) {
        about.base = now;
        about.is_base_bound = true;
        r = delta_write_base(delta_fd, &about);
        if (r < 0)
            err_errno(err, r, "noting which base the delta is of");
    }
    delta_info_done(&about);
    return r;
}

static int delta_take_lock(struct fence *f, struct err *err)
{
    /* The lock is held until the fence closes the descriptor. */
    f->lock_fd = openat(f->meta_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->lock_fd < 0)
        return err_errno(err, -errno, "locking the delta");
    if (flock(f->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "delta '%s' is in use", f->delta_path);
    return 0;
}

static int open_delta_part(int delta_fd, const char *name, int *ret_fd, struct err *err)
{
    int fd = path_open_beneath(delta_fd, name, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return err_errno(err, fd, "opening '%s' of the delta", name);
    *ret_fd = fd;
    return 0;
}

int delta_persist(struct fence *f)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int r = 0;

    if (!atomic_load(&f->is_unsynced))
        return 0;
    pthread_mutex_lock(&lock);
    if (atomic_load(&f->is_unsynced))
        r = syncfs(f->meta_fd) < 0 ? -errno : 0;
    if (r == 0)
        atomic_store(&f->is_unsynced, false);
    pthread_mutex_unlock(&lock);
    return r;
}

int delta_open(struct fence *f, const struct fence_config *config, struct err *err)
{
    const char *path = f->delta_path;
    autofd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_made = fd < 0 && errno == ENOENT && mkdir(path, 0700) == 0;
    int r;

    if (is_made)
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "opening delta '%s'", path);
    r = is_blank_delta(fd);
    if (r < 0)
        return err_errno(err, r, "reading delta '%s'", path);
    f->is_new = r;
    /* Also for an existing one: its maker may have been killed before it was on disk. */
    atomic_store(&f->is_unsynced, true);
    if (f->is_new) {
        struct delta_info about = { .base_path = f->base_path,
                                    .is_base_bound = config->base_fd > 0,
                                    .made_ns = clock_wall_ns() };
        r = dir_identity_read(f->base_fd, &about.base);
        r = r < 0 ? err_errno(err, r, "base '%s'", f->base_path) : delta_make_format(fd, f->base_fd, &about, err);
    } else {
        r = delta_check_format(fd, path, err);
    }
    if (r == 0)
        r = delta_check_base(f, fd, config, err);
    if (r == 0)
        r = open_delta_part(fd, "meta", &f->meta_fd, err);
    if (r == 0)
        r = delta_take_lock(f, err);
    if (r == 0)
        r = overlay_delta_from_overlayfs(fd, err);
    if (r == 0)
        r = open_delta_part(fd, "work", &f->work_fd, err);
    if (r == 0)
        r = open_delta_part(fd, "data", &f->data_fd, err);
    if (r == 0) {
        autodirectory work = directory_open(f->work_fd);
        if (!work)
            return err_errno(err, -errno, "reading the delta's work directory");
        for (const struct dirent *d; (d = directory_next(work));)
            file_remove_tree(f->work_fd, d->d_name);
    }
    /* Checked under the lock: another fence may have used the directory since it was made, and left changes. */
    f->made_delta = r == 0 && is_made && holds_only(f->data_fd, ".", nothing) > 0;
    return r;
}

void delta_undo_open(struct fence *f)
{
    const char *name = strrchr(f->delta_path ? f->delta_path : "/", '/') + 1;
    autofree char *dir = f->made_delta ? xdupn(f->delta_path, (size_t) (name - f->delta_path)) : NULL;
    autofd int fd = dir ? path_open_real(dir, O_PATH | O_DIRECTORY) : -1;

    if (fd >= 0)
        file_remove_tree(fd, name);
}

bool delta_is_root(const struct buf *roots, const char *path, size_t len)
{
    for (const char *line = roots->data; line && *line;) {
        size_t n = strcspn(line, "\n");

        if (n >= len && memcmp(line, path, len) == 0 && (n == len || line[len] == '/'))
            return true;
        line += n + (line[n] == '\n');
    }
    return false;
}

int delta_info_open(const char *path, struct delta_info *ret_info, struct err *err)
{
    struct delta_info about = DELTA_INFO_NONE;
    autofd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "opening delta '%s'", path);
    r = delta_check_format(fd, path, err);
    if (r == 0 && (r = delta_read_base(fd, &about)) < 0)
        err_errno(err, r, "reading which base the delta is of");
    if (r == 0)
        r = open_delta_part(fd, "data", &about.data_fd, err);
    if (r == 0)
        r = open_delta_part(fd, "meta", &about.meta_fd, err);
    if (r < 0) {
        delta_info_done(&about);
        return r;
    }
    about.is_unwitnessed = faccessat(about.meta_fd, DELTA_UNWITNESSED, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    *ret_info = about;
    return 0;
}

void delta_info_done(struct delta_info *about)
{
    free(about->base_path);
    if (about->data_fd >= 0)
        close(about->data_fd);
    if (about->meta_fd >= 0)
        close(about->meta_fd);
    *about = DELTA_INFO_NONE;
}
