#include "codebase/codebase_get.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/path.h"
#include "codebase/settle.h"
#include "codebase/tree_path.h"

static int not_found(const char *path, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, path, strlen(path));
    return err_set(err, ERR_NOT_FOUND, -ENOENT, "file not found: %s", shown.data);
}

static int open_file(int dirfd, const char *relpath, const char *path, int *ret_fd, struct stat *ret_st, struct err *err)
{
    autofd int fd = path_open_beneath(dirfd, relpath, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

    if (fd == -ENOENT || fd == -ENOTDIR)
        return not_found(path, err);
    if (fd == -ELOOP)
        return tree_path_reject(err, ERR_FAILED_PRECONDITION, fd, path, "is or leads through a symbolic link");
    if (fd < 0)
        return tree_path_errno(err, fd, "opening", path);
    if (fstat(fd, ret_st) < 0)
        return tree_path_errno(err, -errno, "opening", path);
    if (!S_ISREG(ret_st->st_mode))
        return tree_path_reject(err, ERR_FAILED_PRECONDITION, S_ISDIR(ret_st->st_mode) ? -EISDIR : -EINVAL, path,
                                S_ISDIR(ret_st->st_mode) ? "is a directory" : "is no regular file");
    *ret_fd = steal_fd(&fd);
    return 0;
}

int codebase_get_open(struct codebase *cb, const char *path, int *ret_fd, struct stat *ret_st, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    int r = tree_path_clean_entry(path, strlen(path), &clean, err);

    return r < 0 ? r : open_file(cb->files_fd, clean.data, clean.data, ret_fd, ret_st, err);
}

/* The first change after the version shows the state before it: the entry's old object, plus the rest of the path inside it.
 * Returns 1 if it found the path, 0 if this version did not change it, -ENOENT if the path did not exist. */
static int find_in(const struct manifest *m, const char *path, struct buf *out)
{
    char old[OBJECT_NAME_MAX];

    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *e = &m->entries[i];
        bool is_it = strcmp(e->path, path) == 0;

        if (e->op == MANIFEST_LOST || (!is_it && !tree_path_is_in(e->path, path)))
            continue;
        if (e->old_kind == TREE_NONE)
            return -ENOENT;
        object_name('o', e->object, old);
        buf_addf(out, "%s%s", old, is_it ? "" : path + strlen(e->path));
        return 1;
    }
    return 0;
}

static int open_at(struct codebase *cb, const struct codebase_meta *meta, uint64_t version, const char *path, int *ret_fd,
                   struct stat *ret_st, struct err *err)
{
    for (uint64_t n = version + 1; n <= meta->version; n++) {
        autodone(manifest) struct manifest m = MANIFEST_EMPTY;
        autodone(buf) struct buf where = BUF_EMPTY;
        autofd int fd = settle_open_version(cb, n);
        int r = fd < 0 ? fd : manifest_read(fd, &m);

        if (r < 0)
            return err_errno(err, r == -ENOENT ? -EBADMSG : r, "reading version %" PRIu64, n);
        r = find_in(&m, path, &where);
        if (r < 0)
            return not_found(path, err);
        if (r > 0)
            return open_file(fd, where.data, path, ret_fd, ret_st, err);
    }
    return open_file(cb->files_fd, path, path, ret_fd, ret_st, err);
}

int codebase_get_open_at(struct codebase *cb, uint64_t version, const char *path, int *ret_fd, struct stat *ret_st,
                         struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    struct codebase_meta meta;
    autofd int lock = -1;
    int r = tree_path_clean_entry(path, strlen(path), &clean, err);

    if (r >= 0)
        r = codebase_lock(cb, &lock, &meta, err);
    if (r >= 0)
        r = codebase_meta_check_version(&meta, version, err);
    return r < 0 ? r : open_at(cb, &meta, version, clean.data, ret_fd, ret_st, err);
}
