#include "codebase/codebase_list.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/directory.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/codebase_int.h"
#include "codebase/tree_path.h"

/* Names of one directory that are in memory at once. A larger directory is read several times, each time for the next names in
 * order. */
#define BATCH 16384

struct codebase_listing {
    codebase_file_fn fn;
    void *cookie;
    bool is_recursive;
    size_t left; /* entries until the limit */
    struct buf path;
    unsigned depth;
};

/* The smallest names above a bound, as a heap with the largest on top. */
struct batch {
    char **names; /* owned */
    size_t count, cap, most;
};

static void batch_done(struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        free(b->names[i]);
    free(b->names);
}

static void swap_names(char **a, char **b)
{
    char *c = *a;

    *a = *b;
    *b = c;
}

static void sift_down(struct batch *b, size_t i)
{
    for (;;) {
        size_t largest = i, left = 2 * i + 1, right = left + 1;

        if (left < b->count && strcmp(b->names[left], b->names[largest]) > 0)
            largest = left;
        if (right < b->count && strcmp(b->names[right], b->names[largest]) > 0)
            largest = right;
        if (largest == i)
            return;
        swap_names(&b->names[i], &b->names[largest]);
        i = largest;
    }
}

static void batch_add(struct batch *b, const char *name)
{
    if (b->count == b->most) {
        if (strcmp(name, b->names[0]) >= 0)
            return;
        free(b->names[0]);
        b->names[0] = xdup(name);
        sift_down(b, 0);
        return;
    }
    vec_room(&b->names, &b->cap, b->count);
    b->names[b->count++] = xdup(name);
    /* Only a full batch needs the heap. */
    if (b->count == b->most)
        for (size_t i = b->count / 2; i-- > 0;)
            sift_down(b, i);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Reads names above `from`, or including it; NULL: all names. */
static int read_batch(int dirfd, const char *from, bool is_inclusive, struct batch *b)
{
    autodirectory dir = directory_open(dirfd);
    int r;

    if (!dir)
        return -errno;
    errno = 0;
    for (const struct dirent *e; (e = directory_next(dir)); errno = 0) {
        int order = from ? strcmp(e->d_name, from) : 1;

        if (order > 0 || (order == 0 && is_inclusive))
            batch_add(b, e->d_name);
    }
    r = -errno;
    if (b->count)
        qsort(b->names, b->count, sizeof(*b->names), by_name);
    return r;
}

static int list_dir(struct codebase_listing *l, int dirfd, const char *after);

static int report_file(struct codebase_listing *l, const char *name, const struct stat *st)
{
    static const enum codebase_file_kind kinds[] = {
        [TREE_FILE] = CODEBASE_FILE, [TREE_LINK] = CODEBASE_SYMLINK, [TREE_DIR] = CODEBASE_DIRECTORY
    };
    struct codebase_file file = { .path = l->path.data,
                                  .name = name,
                                  .kind = kinds[tree_kind_of(st->st_mode)],
                                  .mode = st->st_mode & 0777,
                                  .size_bytes = (uint64_t) st->st_size,
                                  .mtime_ns = stat_mtime_ns(st) };

    if (l->left == 0)
        return 1;
    l->left--;
    return l->fn(&file, l->cookie);
}

static int list_name(struct codebase_listing *l, int dirfd, const char *name, bool is_told, const char *after)
{
    size_t len = l->path.len;
    autofd int fd = -1;
    struct stat st;
    int r = 0;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (tree_kind_of(st.st_mode) == TREE_NONE)
        return 0;
    if (len)
        buf_add_char(&l->path, '/');
    buf_add_str(&l->path, name);
    if (!is_told)
        r = report_file(l, name, &st);
    if (r == 0 && l->is_recursive && S_ISDIR(st.st_mode) && l->depth < TREE_DEPTH_MAX) {
        fd = path_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
        l->depth++;
        r = fd >= 0 ? list_dir(l, fd, after) : fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
        l->depth--;
    }
    l->path.len = len;
    l->path.data[len] = 0;
    return r;
}

/* `after` is the rest of the path to continue after, relative to this directory; NULL: start at the beginning. */
static int list_dir(struct codebase_listing *l, int dirfd, const char *after)
{
    const char *slash = after ? strchr(after, '/') : NULL;
    autofree char *from = after ? xdupn(after, slash ? (size_t) (slash - after) : strlen(after)) : NULL;
    bool is_first = after;
    int r = 0;

    for (bool is_last = false; !is_last && r == 0;) {
        struct batch b = { .most = l->left < BATCH - 2 ? l->left + 2 : BATCH };

        r = read_batch(dirfd, from, is_first, &b);
        is_last = b.count < b.most;
        for (size_t i = 0; i < b.count && r == 0; i++) {
            bool is_told = is_first && i == 0 && strcmp(b.names[i], from) == 0;

            r = list_name(l, dirfd, b.names[i], is_told, is_told && slash ? slash + 1 : NULL);
        }
        is_first = false;
        if (b.count) {
            free(from);
            from = xdup(b.names[b.count - 1]);
        }
        batch_done(&b);
    }
    return r;
}

static int open_dir(struct codebase *cb, const char *path, int *ret_fd, struct err *err)
{
    int fd = path_open_beneath(cb->files_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0);

    if (fd == -ELOOP)
        return tree_path_reject(err, ERR_FAILED_PRECONDITION, fd, path, "leads through a symbolic link");
    if (fd == -ENOTDIR)
        return tree_path_reject(err, ERR_FAILED_PRECONDITION, fd, path, "is not a directory");
    if (fd == -ENOENT)
        return tree_path_reject(err, ERR_NOT_FOUND, fd, path, "is not there");
    if (fd < 0)
        return tree_path_errno(err, fd, "listing", path);
    *ret_fd = fd;
    return 0;
}

int codebase_list(struct codebase *cb, const struct codebase_list_options *options, codebase_file_fn fn, void *cookie,
                  struct err *err)
{
    struct codebase_listing l = { .fn = fn, .cookie = cookie, .is_recursive = options->is_recursive };
    const char *path = options->path ? options->path : "", *after = NULL;
    autodone(buf) struct buf clean = BUF_EMPTY, clean_after = BUF_EMPTY;
    autofd int fd = -1;
    int r = tree_path_clean(path, strlen(path), &clean, err);

    if (r >= 0 && options->after)
        r = tree_path_clean_entry(options->after, strlen(options->after), &clean_after, err);
    if (r < 0)
        return r;
    if (options->after) {
        if (!tree_path_is_in(clean.data, clean_after.data))
            return err_reject(err, -EINVAL, options->after, "is not in the directory listed");
        after = clean_after.data + (clean.len ? clean.len + 1 : 0);
    }
    r = open_dir(cb, clean.data, &fd, err);
    if (r < 0)
        return r == -ENOENT && !options->is_recursive ? 0 : r;
    l.left = options->limit ? options->limit : SIZE_MAX;
    buf_add(&l.path, clean.data, clean.len);
    r = list_dir(&l, fd, after);
    buf_done(&l.path);
    return r < 0 ? tree_path_errno(err, r, "listing", clean.data) : r;
}
