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

/* Whether a directory has nothing but these, which end with NULL. One that is not there has nothing. */
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

/* Nothing is in it, or what make_format() put there before whoever called it was killed: no format yet, and no change of anybody's. */
static int is_blank(int fd)
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

static int check_format(int delta_fd, const char *path, struct err *err)
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

/* The format marker is written last: a delta half made is taken up again, because all of this may be repeated. */
static int make_format(int delta_fd, const char *base_path, const struct stat *base, struct err *err)
{
    autofree char *text = xprintf("%" PRIu64 " %" PRIu64 " %" PRId64 "\n%s\n", (uint64_t) base->st_dev, (uint64_t) base->st_ino,
                                  clock_wall_ns(), base_path);
    int r = path_mkdirs_beneath(delta_fd, "meta/pre", 0700);

    if (r == 0)
        r = path_mkdirs_beneath(delta_fd, "work", 0700);
    if (r == 0)
        r = path_mkdirs_beneath(delta_fd, "data", 0755);
    if (r == 0 && fchmodat(delta_fd, "data", (base->st_mode & 0777) | 0700, 0) < 0)
        r = -errno;
    if (r == 0)
        r = file_put(delta_fd, "meta/base", text, strlen(text), 0600);
    if (r == 0)
        r = file_put(delta_fd, "meta/format", FORMAT, strlen(FORMAT), 0600);
    return r < 0 ? err_errno(err, r, "making the delta") : 0;
}

/* <device> <inode> <when the delta was made>, a newline, the path. */
static int read_base(int delta_fd, uint64_t *ret_dev, uint64_t *ret_ino, int64_t *ret_made_ns, char **ret_path)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int at = 0, r = file_read(delta_fd, "meta/base", PATH_MAX + 64, &text);

    if (r < 0)
        return r;
    if (!text.data || sscanf(text.data, "%" SCNu64 " %" SCNu64 " %" SCNd64 "%n", ret_dev, ret_ino, ret_made_ns, &at) != 3 ||
        text.data[at] != '\n')
        return -EBADMSG;
    if (text.data[text.len - 1] == '\n')
        text.data[text.len - 1] = 0;
    *ret_path = xdup(text.data + at + 1);
    return 0;
}

/* The same directory, by number or by path: a codebase that was moved or restored keeps one of the two. */
static int check_base(struct fence *f, int delta_fd, const struct stat *base, bool keeps_other_base, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;
    autofree char *path = NULL;
    uint64_t dev, ino;
    int64_t made_ns;
    int r = read_base(delta_fd, &dev, &ino, &made_ns, &path);

    if (r < 0)
        return err_errno(err, r, "reading which base the delta is of");
    /* The base's own times tell when something hidden came or went in it: directories show when the delta was made. */
    if (!f->version_ns)
        f->version_ns = made_ns;
    if (keeps_other_base || (dev == base->st_dev && ino == base->st_ino) || strcmp(path, f->base_path) == 0)
        return 0;
    /* From a file: any bytes. */
    buf_add_char(&shown, '\'');
    buf_add_escaped(&shown, path, strlen(path));
    return err_set(err, ERR_FAILED_PRECONDITION, -EXDEV, "delta '%s' was made over %s', not over '%s'", f->delta_path,
                   shown.data, f->base_path);
}

static int take_lock(struct fence *f, struct err *err)
{
    /* Open for as long as the fence lives: it is never closed by hand, meta_fd's life is its life. */
    f->lock_fd = openat(f->meta_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->lock_fd < 0)
        return err_errno(err, -errno, "locking the delta");
    if (flock(f->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "delta '%s' is in use", f->delta_path);
    return 0;
}

static int open_part(int delta_fd, const char *name, int *ret_fd, struct err *err)
{
    int fd = path_open_beneath(delta_fd, name, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return err_errno(err, fd, "opening '%s' of the delta", name);
    *ret_fd = fd;
    return 0;
}

static int empty_work(struct fence *f, struct err *err)
{
    autodirectory dir = directory_open(f->work_fd);

    if (!dir)
        return err_errno(err, -errno, "reading the delta's work directory");
    for (const struct dirent *d; (d = directory_next(dir));)
        file_remove_tree(f->work_fd, d->d_name);
    return 0;
}

int delta_settle(struct fence *f)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int r = 0;

    if (!atomic_load(&f->is_unsettled))
        return 0;
    pthread_mutex_lock(&lock);
    if (atomic_load(&f->is_unsettled))
        r = syncfs(f->meta_fd) < 0 ? -errno : 0;
    if (r == 0)
        atomic_store(&f->is_unsettled, false);
    pthread_mutex_unlock(&lock);
    return r;
}

int delta_open(struct fence *f, const char *path, bool keeps_other_base, struct err *err)
{
    struct stat base;
    autofd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_made = fd < 0 && errno == ENOENT && mkdir(path, 0700) == 0;
    int r;

    if (is_made)
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "opening delta '%s'", path);
    if (fstat(f->base_fd, &base) < 0)
        return err_errno(err, -errno, "base '%s'", f->base_path);
    r = is_blank(fd);
    if (r < 0)
        return err_errno(err, r, "reading delta '%s'", path);
    f->is_new = r;
    /* Also one that was there: whoever made it may have been killed before it was on disk. */
    atomic_store(&f->is_unsettled, true);
    r = r ? make_format(fd, f->base_path, &base, err) : check_format(fd, path, err);
    if (r < 0)
        return r;
    r = check_base(f, fd, &base, keeps_other_base, err);
    if (r == 0)
        r = open_part(fd, "meta", &f->meta_fd, err);
    if (r == 0)
        r = take_lock(f, err);
    if (r == 0)
        r = overlay_delta_return(fd, err);
    if (r == 0)
        r = open_part(fd, "work", &f->work_fd, err);
    if (r == 0)
        r = open_part(fd, "data", &f->data_fd, err);
    if (r == 0)
        r = empty_work(f, err);
    /* Looked at under the lock: another fence may have been here since the directory was made, and have left changes. */
    f->made_delta = r == 0 && is_made && holds_only(f->data_fd, ".", nothing) > 0;
    return r;
}

void delta_unmake(struct fence *f)
{
    const char *name = strrchr(f->delta_path ? f->delta_path : "/", '/') + 1;
    autofree char *dir = f->made_delta ? xdupn(f->delta_path, (size_t) (name - f->delta_path)) : NULL;
    autofd int fd = dir ? path_open_real(dir, O_PATH | O_DIRECTORY) : -1;

    if (fd >= 0)
        file_remove_tree(fd, name);
}

int delta_about_open(const char *path, struct delta_about *ret_about, struct err *err)
{
    struct delta_about about = DELTA_ABOUT_NONE;
    autofd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t dev, ino;
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "opening delta '%s'", path);
    r = check_format(fd, path, err);
    if (r == 0 && (r = read_base(fd, &dev, &ino, &about.made_ns, &about.base_path)) < 0)
        err_errno(err, r, "reading which base the delta is of");
    if (r == 0)
        r = open_part(fd, "data", &about.data_fd, err);
    if (r == 0)
        r = open_part(fd, "meta", &about.meta_fd, err);
    if (r < 0) {
        delta_about_done(&about);
        return r;
    }
    about.is_unwitnessed = faccessat(about.meta_fd, DELTA_UNWITNESSED, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    *ret_about = about;
    return 0;
}

void delta_about_done(struct delta_about *about)
{
    free(about->base_path);
    if (about->data_fd >= 0)
        close(about->data_fd);
    if (about->meta_fd >= 0)
        close(about->meta_fd);
    *about = DELTA_ABOUT_NONE;
}
