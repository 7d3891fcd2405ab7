#include "codebase/codebase_export.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "codebase/archive_library.h"
#include "codebase/codebase_int.h"
#include "codebase/codebase_list.h"
#include "codebase/tree_path.h"

#define CHUNK 65536

struct export_run {
    struct codebase *cb;
    const struct archive_library *lib;
    struct archive *archive;
    struct archive_entry *entry;
    codebase_export_fn fn;
    void *cookie;
    int failure;  /* result of the callback */
    size_t strip; /* length of the path's prefix that names in the archive omit */
};

static la_ssize_t on_write(struct archive *archive, void *cookie, const void *bytes, size_t len)
{
    struct export_run *x = cookie;

    (void) archive;
    x->failure = x->fn(bytes, len, x->cookie);
    return x->failure < 0 ? -1 : (la_ssize_t) len;
}

static int export_failure(struct export_run *x)
{
    return x->failure < 0 ? x->failure : -EIO;
}

static int write_header(struct export_run *x, const struct codebase_file *file, const struct stat *st, const char *target)
{
    const struct archive_library *lib = x->lib;
    int64_t mtime = stat_mtime_ns(st), sec = mtime / CLOCK_NS_PER_SEC, ns = mtime % CLOCK_NS_PER_SEC;
    int r;

    if (ns < 0) {
        ns += CLOCK_NS_PER_SEC;
        sec--;
    }
    lib->archive_entry_clear(x->entry);
    lib->archive_entry_set_pathname(x->entry, file->path + x->strip);
    lib->archive_entry_set_filetype(x->entry, st->st_mode & S_IFMT);
    lib->archive_entry_set_perm(x->entry, st->st_mode & 0777);
    lib->archive_entry_set_mtime(x->entry, sec, (long) ns);
    lib->archive_entry_set_size(x->entry, S_ISREG(st->st_mode) ? st->st_size : 0);
    if (target)
        lib->archive_entry_set_symlink(x->entry, target);
    /* ARCHIVE_WARN means that the name is not UTF-8: libarchive writes its bytes. */
    r = lib->archive_write_header(x->archive, x->entry);
    return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : export_failure(x);
}

static int write_file(struct export_run *x, const struct codebase_file *file)
{
    autofd int fd = path_open_beneath(x->cb->files_fd, file->path, O_RDONLY | O_NONBLOCK, 0);
    char chunk[CHUNK];
    struct stat st;
    ssize_t n;
    int r;

    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return 0; /* it was replaced after it was listed */
    if (fd < 0 || fstat(fd, &st) < 0)
        return fd < 0 ? fd : -errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    r = write_header(x, file, &st, NULL);
    while (r >= 0 && (n = fd_read_full(fd, chunk, sizeof(chunk))) != 0) {
        if (n < 0)
            return (int) n;
        if (x->lib->archive_write_data(x->archive, chunk, (size_t) n) != n)
            return export_failure(x);
    }
    return r;
}

static int write_other(struct export_run *x, const struct codebase_file *file)
{
    autofd int parent = -1;
    char target[PATH_MAX];
    const char *name;
    struct stat st;
    ssize_t len = 0;
    int r = path_open_parent_beneath(x->cb->files_fd, file->path, &parent, &name);

    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
        return 0;
    if (r < 0)
        return r;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISDIR(st.st_mode))
        return write_header(x, file, &st, NULL);
    len = readlinkat(parent, name, target, sizeof(target) - 1);
    if (len < 0)
        return 0;
    target[len] = 0;
    return write_header(x, file, &st, target);
}

static int on_file(const struct codebase_file *file, void *cookie)
{
    struct export_run *x = cookie;

    return file->kind == CODEBASE_FILE ? write_file(x, file) : write_other(x, file);
}

static int open_archive(struct export_run *x, enum codebase_export_filter filter)
{
    int r = ARCHIVE_OK;

    x->archive = x->lib->archive_write_new();
    x->entry = x->lib->archive_entry_new();
    if (!x->archive || !x->entry)
        return -ENOMEM;
    if (filter == CODEBASE_EXPORT_GZIP)
        r = x->lib->archive_write_add_filter_gzip(x->archive);
    else if (filter == CODEBASE_EXPORT_ZSTD)
        r = x->lib->archive_write_add_filter_zstd(x->archive);
    if (r == ARCHIVE_OK)
        r = x->lib->archive_write_set_format_pax_restricted(x->archive);
    /* No padding: some readers reject zeros after a compressed stream. */
    if (r == ARCHIVE_OK)
        r = x->lib->archive_write_set_bytes_in_last_block(x->archive, 1);
    if (r == ARCHIVE_OK)
        r = x->lib->archive_write_open(x->archive, x, NULL, on_write, NULL);
    return r == ARCHIVE_OK ? 0 : -EOPNOTSUPP;
}

int codebase_export(struct codebase *cb, const char *path, enum codebase_export_filter filter, codebase_export_fn fn,
                    void *cookie, struct err *err)
{
    struct export_run x = { .cb = cb, .lib = archive_library_get(err), .fn = fn, .cookie = cookie };
    struct codebase_list_options options = { .path = path, .is_recursive = true };
    autodone(buf) struct buf clean = BUF_EMPTY;
    int r = tree_path_clean(path ? path : "", path ? strlen(path) : 0, &clean, err);

    if (r < 0 || !x.lib)
        return r < 0 ? r : -ENOSYS;
    x.strip = clean.len ? clean.len + 1 : 0;
    r = open_archive(&x, filter);
    if (r < 0)
        err_errno(err, r, "beginning an archive");
    if (r >= 0)
        r = codebase_list(cb, &options, on_file, &x, err);
    if (r >= 0 && x.lib->archive_write_close(x.archive) != ARCHIVE_OK)
        r = err_errno(err, export_failure(&x), "finishing an archive");
    if (x.archive)
        x.lib->archive_write_free(x.archive);
    x.lib->archive_entry_free(x.entry);
    return r;
}
