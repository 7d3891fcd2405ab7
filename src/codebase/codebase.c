#include "codebase/codebase.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/codebase_int.h"
#include "codebase/settle.h"

#define MAKE_TRIES 16

int codebases_open(const char *root, const struct codebase_options *options, struct codebases **ret, struct err *err)
{
    autoptr(codebases) all = xnew(struct codebases);

    if (mkdir(root, 0700) < 0 && errno != EEXIST) {
        all->fd = -1;
        return err_errno(err, -errno, "making the directory of codebases '%s'", root);
    }
    all->fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (all->fd < 0)
        return err_errno(err, -errno, "opening the directory of codebases '%s'", root);
    if (options)
        all->options = *options;
    *ret = steal_ptr(&all);
    return 0;
}

void codebases_close(struct codebases *all)
{
    if (!all)
        return;
    cleanup_fd(&all->fd);
    free(all);
}

struct each {
    codebase_id_fn fn;
    void *cookie;
};

static int on_name(const char *name, void *cookie)
{
    struct each *each = cookie;

    return id_is_valid(CODEBASE_ID_PREFIX, name) ? each->fn(name, each->cookie) : 0;
}

int codebases_each(struct codebases *all, codebase_id_fn fn, void *cookie, struct err *err)
{
    struct each each = { fn, cookie };
    int r = tree_each_name(all->fd, on_name, &each);

    return r < 0 ? err_errno(err, r, "listing the codebases") : r;
}

static int check_id(const char *id, struct err *err)
{
    return id_is_valid(CODEBASE_ID_PREFIX, id) ? 0 : err_reject(err, -EINVAL, id, "is no codebase id");
}

static int not_found(struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, -ENOENT, "codebase not found");
}

static int open_part(int dir_fd, const char *name, int *ret_fd)
{
    *ret_fd = path_open_beneath(dir_fd, name, O_PATH | O_DIRECTORY, 0);
    return *ret_fd;
}

static int open_dirs(struct codebase *cb)
{
    int r = path_open_beneath(cb->root_fd, cb->id, O_PATH | O_DIRECTORY, 0);

    if (r < 0)
        return r;
    cb->dir_fd = r;
    if (fstat(cb->dir_fd, &cb->st) < 0)
        return -errno;
    r = open_part(cb->dir_fd, "files", &cb->files_fd);
    if (r >= 0)
        r = open_part(cb->dir_fd, "versions", &cb->versions_fd);
    if (r >= 0)
        r = open_part(cb->dir_fd, "stage", &cb->stage_fd);
    return r < 0 ? r : 0;
}

int codebase_open_unsettled(struct codebases *all, const char *id, struct codebase **ret, struct err *err)
{
    autoptr(codebase) cb = xnew(struct codebase);
    int r;

    cb->root_fd = cb->dir_fd = cb->files_fd = cb->versions_fd = cb->stage_fd = -1;
    cb->options = all->options;
    r = check_id(id, err);
    if (r < 0)
        return r;
    memcpy(cb->id, id, strlen(id) + 1);
    cb->root_fd = fcntl(all->fd, F_DUPFD_CLOEXEC, 3);
    if (cb->root_fd < 0)
        return err_errno(err, -errno, "opening the codebase '%s'", id);
    r = open_dirs(cb);
    if (r == -ENOENT)
        return not_found(err);
    if (r < 0)
        return err_errno(err, r, "opening the codebase '%s'", id);
    *ret = steal_ptr(&cb);
    return 0;
}

int codebase_open(struct codebases *all, const char *id, struct codebase **ret, struct err *err)
{
    autoptr(codebase) cb = NULL;
    int r = codebase_open_unsettled(all, id, &cb, err);

    if (r >= 0)
        r = codebase_settle(cb, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&cb);
    return 0;
}

void codebase_close(struct codebase *cb)
{
    if (!cb)
        return;
    cleanup_fd(&cb->root_fd);
    cleanup_fd(&cb->dir_fd);
    cleanup_fd(&cb->files_fd);
    cleanup_fd(&cb->versions_fd);
    cleanup_fd(&cb->stage_fd);
    free(cb);
}

const char *codebase_id(const struct codebase *cb)
{
    return cb->id;
}

int codebase_files_fd(const struct codebase *cb)
{
    return cb->files_fd;
}

/* Creates and locks the directory. The lock tells recovery that the directory is in use. -EAGAIN if recovery removed it first. */
static int make_directories(int root_fd, const char *name, int *ret_dir)
{
    static const char *const parts[] = { "files", "versions", "stage" };
    struct codebase_meta meta = CODEBASE_META_NEW;
    autofd int dir = -1, lock = -1;
    int r;

    /* Other users may search it: the fence that serves `files` may run as one. */
    if (mkdirat(root_fd, name, 0755) < 0)
        return -errno;
    dir = path_open_beneath(root_fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return dir == -ENOENT ? -EAGAIN : dir;
    if (flock(dir, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (mkdirat(dir, parts[i], i == 0 ? 0755 : 0700) < 0)
            return errno == ENOENT ? -EAGAIN : -errno;
    lock = openat(dir, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (lock < 0)
        return -errno;
    r = codebase_meta_write(dir, &meta);
    if (r < 0 || fsync(dir) < 0)
        return r < 0 ? r : -errno;
    *ret_dir = steal_fd(&dir);
    return 0;
}

/* Creates the codebase under another name and renames it, so that an incomplete one is never visible. */
static int make_codebase(struct codebases *all, const char *id)
{
    char name[ID_TEXT_MAX];
    autofd int dir = -1;
    int r;

    id_new(CODEBASE_NEW_PREFIX, name);
    r = make_directories(all->fd, name, &dir);
    codebase_step("codebase-furnished");
    if (r >= 0 && renameat2(all->fd, name, all->fd, id, RENAME_NOREPLACE) < 0)
        r = -errno;
    if (r >= 0)
        r = file_fsync_dir(all->fd);
    if (r < 0)
        file_remove_tree(all->fd, name);
    return r;
}

int codebase_create(struct codebases *all, const char *id, struct codebase **ret, struct err *err)
{
    int r = check_id(id, err);

    if (r < 0)
        return r;
    r = -EAGAIN;
    for (int i = 0; i < MAKE_TRIES && r == -EAGAIN; i++)
        r = make_codebase(all, id);
    if (r == -EEXIST)
        return err_set(err, ERR_ALREADY_EXISTS, r, "the codebase '%s' is there already", id);
    if (r < 0)
        return err_errno(err, r, "making the codebase '%s'", id);
    return codebase_open(all, id, ret, err);
}

/* Returns 1 if it still exists under its id. After a deletion another codebase may have taken the id. */
static int is_still_there(struct codebase *cb)
{
    struct stat st;

    if (fstatat(cb->root_fd, cb->id, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return st.st_dev == cb->st.st_dev && st.st_ino == cb->st.st_ino;
}

int codebase_lock_only(struct codebase *cb, int *ret_lock, struct err *err)
{
    /* Opened for each lock: the lock belongs to the open file description, so threads of one process exclude each other too. */
    autofd int fd = path_open_beneath(cb->dir_fd, "lock", O_RDWR, 0);
    int r = fd < 0 ? fd : 0;

    while (r == 0 && flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            r = -errno;
    if (r == 0)
        r = is_still_there(cb);
    if (r == 0 || r == -ENOENT)
        return not_found(err);
    if (r < 0)
        return err_errno(err, r, "locking the codebase '%s'", cb->id);
    *ret_lock = steal_fd(&fd);
    return 0;
}

int codebase_lock(struct codebase *cb, int *ret_lock, struct codebase_meta *ret_meta, struct err *err)
{
    autofd int fd = -1;
    int r = codebase_lock_only(cb, &fd, err);

    if (r < 0)
        return r;
    r = settle(cb, ret_meta);
    if (r < 0)
        return err_errno(err, r, "finishing the last version of the codebase '%s'", cb->id);
    *ret_lock = steal_fd(&fd);
    return 0;
}

int codebase_settle(struct codebase *cb, struct err *err)
{
    struct codebase_meta meta;
    autofd int lock = -1;

    return codebase_lock(cb, &lock, &meta, err);
}

static struct codebase_info info_of(const struct codebase_meta *meta)
{
    return (struct codebase_info){ .version = meta->version,
                                   .size_bytes = meta->size_bytes,
                                   .file_count = meta->file_count,
                                   .undo_bytes = meta->undo_bytes,
                                   .oldest_version = meta->oldest - 1 };
}

/* Does not wait for a version in progress: the counters are replaced atomically. */
int codebase_info(struct codebase *cb, struct codebase_info *ret, struct err *err)
{
    struct codebase_meta meta;
    autofd int lock = -1;
    int r = codebase_meta_read(cb->dir_fd, &meta);

    if (r < 0)
        r = codebase_lock(cb, &lock, &meta, err);
    if (r < 0)
        return r;
    *ret = info_of(&meta);
    return 0;
}

int codebase_recount(struct codebase *cb, struct codebase_info *ret, struct err *err)
{
    struct codebase_meta meta, counted;
    autofd int lock = -1;
    int r = codebase_lock(cb, &lock, &meta, err);

    if (r < 0)
        return r;
    r = settle_recount(cb, meta.oldest, &counted);
    if (r < 0)
        return err_errno(err, r, "counting the codebase '%s'", cb->id);
    if (counted.version < meta.version) { /* without any layer only `meta` knows the version */
        counted.version = meta.version;
        counted.oldest = meta.oldest;
    }
    *ret = info_of(&counted);
    return 0;
}
