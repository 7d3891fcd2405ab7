#include "client/tarball.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/archive_library.h"

#define BLOCK_BYTES 65536

struct tarball {
    int dirfd;    /* owned */
    char *prefix; /* owned */
    const struct archive_library *lib;
    struct archive *archive;
    struct archive_entry *entry;
    char **paths; /* owned, each too; sorted */
    size_t count, cap, next;
    const char *const *exclude; /* borrowed during tarball_open() */
    size_t exclude_count;
    struct buf out; /* archive bytes, of which those before `at` were read already */
    size_t at;
    int file_fd;        /* owned; the file being read */
    uint64_t file_left; /* bytes still to read, by the size in its header */
    struct tarball_counts counts;
    bool is_over;
};

/* ---- listing ---- */

static bool is_excluded(const struct tarball *tb, const struct file_entry *entry)
{
    for (size_t i = 0; i < tb->exclude_count; i++) {
        if (fnmatch(tb->exclude[i], entry->name, 0) == 0 || fnmatch(tb->exclude[i], entry->path, FNM_PATHNAME) == 0)
            return true;
    }
    return false;
}

static int note(const struct file_entry *entry, void *cookie)
{
    struct tarball *tb = cookie;
    mode_t mode = entry->st->st_mode;

    if (is_excluded(tb, entry))
        return FILE_WALK_SKIP;
    if (!S_ISREG(mode) && !S_ISLNK(mode) && !S_ISDIR(mode)) {
        tb->counts.skipped++;
        return FILE_WALK_ON;
    }
    vec_room(&tb->paths, &tb->cap, tb->count);
    tb->paths[tb->count++] = xdupn(entry->path, entry->path_len);
    if (!S_ISDIR(mode))
        tb->counts.files++;
    if (S_ISREG(mode))
        tb->counts.bytes += (uint64_t) entry->st->st_size;
    return FILE_WALK_ON;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* ---- opening and closing ---- */

static la_ssize_t on_write(struct archive *archive, void *cookie, const void *bytes, size_t len)
{
    struct tarball *tb = cookie;

    (void) archive;
    buf_add(&tb->out, bytes, len);
    return (la_ssize_t) len;
}

static int begin(struct tarball *tb)
{
    tb->archive = tb->lib->archive_write_new();
    tb->entry = tb->lib->archive_entry_new();
    if (!tb->archive || !tb->entry)
        return -ENOMEM;
    if (tb->lib->archive_write_set_format_pax_restricted(tb->archive) != ARCHIVE_OK ||
        tb->lib->archive_write_set_bytes_in_last_block(tb->archive, 1) != ARCHIVE_OK ||
        tb->lib->archive_write_open(tb->archive, tb, NULL, on_write, NULL) != ARCHIVE_OK)
        return -EOPNOTSUPP;
    return 0;
}

int tarball_open(int dirfd, const char *prefix, const char *const *exclude, size_t exclude_count, struct tarball **ret,
                 struct err *err)
{
    autoptr(tarball) tb = xnew(struct tarball);
    int r;

    tb->file_fd = -1;
    tb->prefix = xdup(prefix);
    tb->exclude = exclude;
    tb->exclude_count = exclude_count;
    tb->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
    if (tb->dirfd < 0)
        return err_errno(err, -errno, "opening a directory");
    tb->lib = archive_library_get(err);
    if (!tb->lib)
        return -ENOSYS;
    r = file_walk(tb->dirfd, ".", note, tb, err);
    if (r < 0)
        return r;
    qsort(tb->paths, tb->count, sizeof(*tb->paths), compare);
    r = begin(tb);
    if (r < 0)
        return err_errno(err, r, "beginning an archive");
    *ret = steal_ptr(&tb);
    return 0;
}

void tarball_close(struct tarball *tb)
{
    if (!tb)
        return;
    for (size_t i = 0; i < tb->count; i++)
        free(tb->paths[i]);
    free(tb->paths);
    free(tb->prefix);
    cleanup_fd(&tb->file_fd);
    cleanup_fd(&tb->dirfd);
    /* archive_write_free() completes the archive first, and calls the write callback for that. */
    if (tb->archive)
        tb->lib->archive_write_free(tb->archive);
    buf_done(&tb->out);
    if (tb->entry)
        tb->lib->archive_entry_free(tb->entry);
    free(tb);
}

/* ---- reading ---- */

static int write_header(struct tarball *tb, const char *path, const struct stat *st, const char *target, struct err *err)
{
    autofree char *name = xprintf("%s%s", tb->prefix, path);
    int r;

    tb->lib->archive_entry_clear(tb->entry);
    tb->lib->archive_entry_set_pathname(tb->entry, name);
    tb->lib->archive_entry_set_filetype(tb->entry, st->st_mode & S_IFMT);
    tb->lib->archive_entry_set_perm(tb->entry, st->st_mode & 0777);
    tb->lib->archive_entry_set_mtime(tb->entry, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    tb->lib->archive_entry_set_size(tb->entry, S_ISREG(st->st_mode) ? st->st_size : 0);
    if (target)
        tb->lib->archive_entry_set_symlink(tb->entry, target);
    /* libarchive warns about a name that is not UTF-8, and writes its bytes unchanged. */
    r = tb->lib->archive_write_header(tb->archive, tb->entry);
    return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : err_errno(err, -EIO, "packing '%s'", path);
}

static int begin_link(struct tarball *tb, const char *path, struct err *err)
{
    autofd int fd = path_open_beneath(tb->dirfd, path, O_PATH, 0);
    char target[PATH_MAX];
    struct stat st;
    ssize_t len;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISLNK(st.st_mode))
        return 0;
    len = readlinkat(fd, "", target, sizeof(target) - 1);
    if (len <= 0)
        return 0;
    target[len] = '\0';
    return write_header(tb, path, &st, target, err);
}

static int begin_entry(struct tarball *tb, const char *path, struct err *err)
{
    autofd int fd = path_open_beneath(tb->dirfd, path, O_RDONLY | O_NONBLOCK, 0);
    struct stat st;
    int r;

    if (fd == -ELOOP)
        return begin_link(tb, path, err);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ENXIO)
        return 0; /* its type has changed since it was listed */
    if (fd < 0)
        return err_errno(err, fd, "'%s'", path);
    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "'%s'", path);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return 0;
    r = write_header(tb, path, &st, NULL, err);
    if (r == 0 && S_ISREG(st.st_mode)) {
        tb->file_left = (uint64_t) st.st_size;
        tb->file_fd = steal_fd(&fd);
    }
    return r;
}

/* The header is already written. So a file that grew is truncated, and a file that shrank is an error. */
static int go_on_with_file(struct tarball *tb, struct err *err)
{
    char block[BLOCK_BYTES];
    const char *path = tb->paths[tb->next - 1];
    size_t want = tb->file_left < sizeof(block) ? (size_t) tb->file_left : sizeof(block);
    ssize_t n = fd_read_full(tb->file_fd, block, want);

    if (n < 0)
        return err_errno(err, (int) n, "reading '%s'", path);
    if ((size_t) n < want)
        return err_set(err, ERR_ABORTED, -EAGAIN, "'%s' became shorter while it was read", path);
    if (n > 0 && tb->lib->archive_write_data(tb->archive, block, (size_t) n) != n)
        return err_errno(err, -EIO, "packing '%s'", path);
    tb->file_left -= (uint64_t) n;
    tb->counts.bytes_read += (uint64_t) n;
    if (tb->file_left == 0) {
        cleanup_fd(&tb->file_fd);
        tb->file_fd = -1;
    }
    return 0;
}

static int step(struct tarball *tb, struct err *err)
{
    if (tb->file_fd >= 0)
        return go_on_with_file(tb, err);
    if (tb->next < tb->count)
        return begin_entry(tb, tb->paths[tb->next++], err);
    tb->is_over = true;
    return tb->lib->archive_write_close(tb->archive) == ARCHIVE_OK ? 0 : err_errno(err, -EIO, "finishing an archive");
}

ssize_t tarball_read(struct tarball *tb, void *bytes, size_t size, struct err *err)
{
    size_t len;

    if (tb->at == tb->out.len) {
        buf_clear(&tb->out);
        tb->at = 0;
    }
    while (tb->out.len == 0 && !tb->is_over) {
        int r = step(tb, err);
        if (r < 0)
            return r;
    }
    len = tb->out.len - tb->at < size ? tb->out.len - tb->at : size;
    if (len > 0)
        memcpy(bytes, tb->out.data + tb->at, len);
    tb->at += len;
    return (ssize_t) len;
}

void tarball_count(const struct tarball *tb, struct tarball_counts *ret)
{
    *ret = tb->counts;
}
