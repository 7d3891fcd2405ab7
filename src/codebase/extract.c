#include "codebase/extract.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/archive_library.h"
#include "codebase/codebase_int.h"
#include "codebase/stage.h"
#include "codebase/tree_path.h"

#define BLOCK 65536

struct extraction {
    const struct archive_library *lib;
    struct archive *archive;
    int root_fd;
    struct extract_limits limits;
    struct extract_counts counts;
    struct buf path, parent_path;
    int parent_fd;                       /* owned; the directory of the last entry */
    const struct extract_filter *filter; /* borrowed; NULL: keep everything */
    struct err *err;
};

static int reject_entry(struct extraction *x, const char *why)
{
    return tree_path_reject(x->err, ERR_INVALID_ARGUMENT, -EINVAL, x->path.len ? x->path.data : "?", why);
}

/* libarchive's message may quote the archive, so it is escaped. */
static int report_unreadable(struct extraction *x)
{
    const char *why = x->lib->archive_error_string(x->archive);
    autodone(buf) struct buf shown = BUF_EMPTY;

    if (!why)
        why = "unknown reason";
    buf_add_escaped(&shown, why, strnlen(why, 300));
    return err_invalid(x->err, "the archive cannot be read: %s", shown.data);
}

static int io_error(struct extraction *x, int r)
{
    return tree_path_errno(x->err, r, "unpacking", x->path.data);
}

/* Cleaning would make "/etc/x" and "a/../../x" harmless, but an archive with such names is an attack, so it is refused. */
static int accept_name(struct extraction *x, const char *name)
{
    struct path_component c;

    buf_clear(&x->path);
    if (!name)
        return err_invalid(x->err, "the archive has an entry without a readable name");
    const char *end = name + strlen(name);
    for (const char *at = name; path_next_component(&at, end, &c);)
        if (path_component_is(&c, ".."))
            return err_reject(x->err, -EINVAL, name, "leads out of the archive");
    if (*name == '/')
        return err_reject(x->err, -EINVAL, name, "is an absolute name");
    return tree_path_clean(name, strlen(name), &x->path, x->err);
}

static int make_way(struct extraction *x, const char *path)
{
    int r = path_mkdirs_beneath(x->root_fd, path, 0755);

    if (r == -ELOOP || r == -ENOTDIR)
        return reject_entry(x, "leads through something that is no directory");
    return r < 0 ? io_error(x, r) : 0;
}

/* Opens the parent directory of the current path and keeps it open: most entries are in the same directory as the previous one. */
static int open_parent(struct extraction *x, const char **ret_name)
{
    const char *slash = strrchr(x->path.data, '/');
    size_t len = slash ? (size_t) (slash - x->path.data) : 0;
    autofree char *parent = xdupn(x->path.data, len);
    int r;

    *ret_name = slash ? slash + 1 : x->path.data;
    if (x->parent_fd >= 0 && strcmp(x->parent_path.data, parent) == 0)
        return x->parent_fd;
    cleanup_fd(&x->parent_fd);
    x->parent_fd = -1;
    r = len ? make_way(x, parent) : 0;
    if (r < 0)
        return r;
    x->parent_fd = path_open_beneath(x->root_fd, len ? parent : ".", O_PATH | O_DIRECTORY, 0);
    if (x->parent_fd < 0)
        return io_error(x, x->parent_fd);
    buf_clear(&x->parent_path);
    buf_add(&x->parent_path, parent, len);
    return x->parent_fd;
}

/* The later of two entries with the same name wins, as with tar. */
static int clear_name(struct extraction *x, int parent, const char *name)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    return errno == EISDIR || errno == EPERM ? reject_entry(x, "is both a directory and something else") : io_error(x, -errno);
}

static int count_bytes(struct extraction *x, uint64_t more)
{
    if (more > x->limits.bytes || x->counts.bytes > x->limits.bytes - more)
        return err_set(x->err, ERR_RESOURCE_EXHAUSTED, -EFBIG, "the archive holds more bytes than are allowed");
    x->counts.bytes += more;
    return 0;
}

/* Blocks have offsets, because files may be sparse. The limit counts the resulting length. */
static int write_blocks(struct extraction *x, int fd)
{
    uint64_t end = 0;
    const void *bytes;
    la_int64_t offset;
    size_t len;
    int r;

    while ((r = x->lib->archive_read_data_block(x->archive, &bytes, &len, &offset)) == ARCHIVE_OK) {
        uint64_t stop;

        if (offset < 0 || __builtin_add_overflow((uint64_t) offset, (uint64_t) len, &stop) || stop > INT64_MAX)
            return reject_entry(x, "has an impossible length");
        if (stop > end) {
            r = count_bytes(x, stop - end);
            if (r < 0)
                return r;
            end = stop;
        }
        r = fd_pwrite_full(fd, bytes, len, offset);
        if (r < 0)
            return io_error(x, r);
    }
    if (r != ARCHIVE_EOF)
        return report_unreadable(x);
    return ftruncate(fd, (off_t) end) < 0 ? io_error(x, -errno) : 0;
}

/* Writes a file whose content the filter changes, through memory. */
static int write_rewritten(struct extraction *x, int fd)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    const void *bytes;
    la_int64_t offset;
    size_t len;
    int r;

    while ((r = x->lib->archive_read_data_block(x->archive, &bytes, &len, &offset)) == ARCHIVE_OK) {
        if (offset < 0 || (uint64_t) offset != text.len || len > EXTRACT_REWRITE_MAX - text.len)
            return reject_entry(x, "is too large, or has holes, and would have to be changed");
        buf_add(&text, bytes, len);
    }
    if (r != ARCHIVE_EOF)
        return report_unreadable(x);
    x->filter->rewrite(x->path.data, &text, x->filter->cookie);
    r = count_bytes(x, text.len);
    if (r == 0)
        r = fd_pwrite_full(fd, text.data ? text.data : "", text.len, 0);
    return r < 0 ? io_error(x, r) : 0;
}

static struct timespec mtime_of(struct extraction *x, struct archive_entry *entry)
{
    long ns = x->lib->archive_entry_mtime_nsec(entry);

    if (!x->lib->archive_entry_mtime_is_set(entry) || ns < 0 || ns >= 1000000000L)
        return (struct timespec){ .tv_nsec = UTIME_OMIT };
    return (struct timespec){ .tv_sec = x->lib->archive_entry_mtime(entry), .tv_nsec = ns };
}

static int unpack_file(struct extraction *x, struct archive_entry *entry, bool is_rewritten)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, mtime_of(x, entry) };
    mode_t mode = x->lib->archive_entry_mode(entry) & 0111 ? 0755 : 0644;
    const char *name;
    autofd int fd = -1;
    int parent = open_parent(x, &name), r;

    if (parent < 0)
        return parent;
    fd = path_open_beneath(parent, name, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (fd == -EEXIST) {
        r = clear_name(x, parent, name);
        if (r < 0)
            return r;
        fd = path_open_beneath(parent, name, O_WRONLY | O_CREAT | O_EXCL, mode);
    }
    if (fd < 0)
        return io_error(x, fd);
    r = is_rewritten ? write_rewritten(x, fd) : write_blocks(x, fd);
    if (r < 0)
        return r;
    if (fchmod(fd, mode) < 0)
        return io_error(x, -errno);
    (void) futimens(fd, times); /* a time that the file system cannot store is not an error */
    return 0;
}

/* The directory of an entry that is not a directory itself, with nothing at its name. Borrowed, like the name. */
static int open_cleared(struct extraction *x, const char **ret_name)
{
    int parent = open_parent(x, ret_name);
    int r = parent < 0 ? parent : clear_name(x, parent, *ret_name);

    return r < 0 ? r : parent;
}

static int unpack_link(struct extraction *x, struct archive_entry *entry)
{
    const char *target = x->lib->archive_entry_symlink(entry), *name;
    int parent, r;

    if (!target || !*target || strlen(target) >= PATH_MAX)
        return reject_entry(x, "is a symbolic link without a usable target");
    r = count_bytes(x, strlen(target));
    parent = r < 0 ? r : open_cleared(x, &name);
    if (parent < 0)
        return parent;
    return symlinkat(target, parent, name) < 0 ? io_error(x, -errno) : 0;
}

static int unpack_hard_link(struct extraction *x, const char *target)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    const char *name, *from_name;
    autofd int from = -1;
    struct stat st;
    int parent, r = tree_path_clean_entry(target, strlen(target), &path, x->err);

    if (r < 0)
        return r;
    r = path_open_parent_beneath(x->root_fd, path.data, &from, &from_name);
    if (r < 0 || fstatat(from, from_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return reject_entry(x, "is a hard link to no file of the archive");
    if (strcmp(path.data, x->path.data) == 0)
        return 0;
    r = count_bytes(x, (uint64_t) st.st_size);
    parent = r < 0 ? r : open_cleared(x, &name);
    if (parent < 0)
        return parent;
    r = stage_copy(from, from_name, parent, name);
    return r < 0 ? io_error(x, r) : 0;
}

static enum extract_verdict decide_entry(struct extraction *x, struct archive_entry *entry)
{
    const char *target = x->lib->archive_entry_symlink(entry);
    mode_t type = x->lib->archive_entry_filetype(entry);

    if (!x->filter)
        return EXTRACT_KEEP;
    /* A hard link is a file. */
    type = type == AE_IFLNK ? S_IFLNK : type == AE_IFDIR ? S_IFDIR : S_IFREG;
    return x->filter->decide(x->path.data, type, target ? target : "", x->filter->cookie);
}

static int unpack_entry(struct extraction *x, struct archive_entry *entry)
{
    const char *hard_link = x->lib->archive_entry_hardlink(entry);
    int r = accept_name(x, x->lib->archive_entry_pathname(entry));

    if (r < 0)
        return r;
    if (x->path.len == 0) /* "./", the directory that was packed */
        return x->lib->archive_entry_filetype(entry) == AE_IFDIR ? 0 : reject_entry(x, "names the root, which is a directory");
    enum extract_verdict verdict = decide_entry(x, entry);
    if (verdict == EXTRACT_SKIP || (verdict == EXTRACT_REWRITE && hard_link))
        return 0;
    if (hard_link)
        return unpack_hard_link(x, hard_link);
    switch (x->lib->archive_entry_filetype(entry)) {
    case AE_IFREG:
        return unpack_file(x, entry, verdict == EXTRACT_REWRITE);
    case AE_IFLNK:
        return unpack_link(x, entry);
    case AE_IFDIR:
        return make_way(x, x->path.data);
    default:
        return reject_entry(x, "is a device, a pipe or a socket");
    }
}

static int unpack_all(struct extraction *x)
{
    struct archive_entry *entry;
    int r;

    /* ARCHIVE_WARN concerns the character set of a name: the name is then its raw bytes, as we want. */
    while ((r = x->lib->archive_read_next_header(x->archive, &entry)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
        if (++x->counts.entries > x->limits.entries)
            return err_set(x->err, ERR_RESOURCE_EXHAUSTED, -EFBIG, "the archive has more entries than are allowed");
        r = unpack_entry(x, entry);
        if (r < 0)
            return r;
    }
    return r == ARCHIVE_EOF ? 0 : report_unreadable(x);
}

static int extract_archive(int fd, const void *bytes, size_t len, int to_dirfd, const struct extract_limits *limits,
                           const struct extract_filter *filter, struct extract_counts *ret, struct err *err)
{
    struct extraction x = { .root_fd = to_dirfd, .limits = *limits, .parent_fd = -1, .filter = filter, .err = err };
    int r;

    x.lib = archive_library_get(err);
    if (!x.lib)
        return -ENOSYS;
    x.archive = x.lib->archive_read_new();
    if (!x.archive)
        return err_errno(err, -ENOMEM, "reading an archive");
    x.lib->archive_read_support_filter_gzip(x.archive);
    x.lib->archive_read_support_filter_zstd(x.archive);
    x.lib->archive_read_support_format_tar(x.archive);
    r = bytes ? x.lib->archive_read_open_memory(x.archive, bytes, len) : x.lib->archive_read_open_fd(x.archive, fd, BLOCK);
    r = r == ARCHIVE_OK ? unpack_all(&x) : report_unreadable(&x);
    x.lib->archive_read_free(x.archive);
    cleanup_fd(&x.parent_fd);
    buf_done(&x.path);
    buf_done(&x.parent_path);
    if (r >= 0)
        *ret = x.counts;
    return r;
}

int extract_run(int archive_fd, int to_dirfd, const struct extract_limits *limits, struct extract_counts *ret, struct err *err)
{
    return extract_archive(archive_fd, NULL, 0, to_dirfd, limits, NULL, ret, err);
}

int extract_bytes(const void *bytes, size_t len, int to_dirfd, const struct extract_limits *limits, struct extract_counts *ret,
                  struct err *err)
{
    return extract_archive(-1, bytes, len, to_dirfd, limits, NULL, ret, err);
}

int extract_filtered(int archive_fd, int to_dirfd, const struct extract_limits *limits, const struct extract_filter *filter,
                     struct extract_counts *ret, struct err *err)
{
    return extract_archive(archive_fd, NULL, 0, to_dirfd, limits, filter, ret, err);
}
