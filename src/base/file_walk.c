#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/mem.h"
#include "base/path.h"

/* Neither our stack nor our descriptors may grow with a tree that an attacker made deep. The walk reads the names of a
 * directory when it enters it, keeps only the deepest OPEN_LEVELS open, and reopens the others on its way back. */
#define OPEN_LEVELS 64

struct file_walk_level {
    int fd; /* owned; -1: closed for now */
    dev_t dev;
    ino_t ino;
    char *text;         /* owned; the NUL-terminated names */
    const char **names; /* owned array; its elements point into `text` */
    size_t count, next;
    size_t path_len; /* length of the directory's path in file_walk_state.path */
};

struct file_walk_state {
    struct file_walk_level *levels; /* owned; the first `depth` are in use */
    size_t cap, depth;
    int root_fd; /* borrowed: the start of the walk */
    bool is_sorted;
    struct buf path;
    file_walk_fn fn;
    void *cookie;
    struct err *err;
};

static void level_done(struct file_walk_level *level)
{
    cleanup_fd(&level->fd);
    free(level->text);
    free(level->names);
}

static void walk_done(struct file_walk_state *w)
{
    while (w->depth > 0)
        level_done(&w->levels[--w->depth]);
    free(w->levels);
    buf_done(&w->path);
}

/* `path` is empty for the start of the walk. */
static int file_walk_report(struct err *err, int r, const char *what, const char *path, size_t len)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    buf_addf(&text, "%s '", what);
    buf_add_escaped(&text, len ? path : ".", len ? len : 1);
    return err_errno(err, r, "%s'", text.data);
}

static int report_here(struct file_walk_state *w, int r, const char *what)
{
    return file_walk_report(w->err, r, what, w->path.data, w->path.len);
}

static bool is_vanished(int r)
{
    /* A directory that became a file or a link is as gone as a removed one. */
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Reads the names of the directory open as level->fd. */
static int level_read(struct file_walk_level *level, bool is_sorted)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autodirectory dir = directory_open(level->fd);
    struct stat st;

    if (!dir || fstat(level->fd, &st) < 0)
        return -errno;
    level->dev = st.st_dev;
    level->ino = st.st_ino;
    errno = 0;
    for (const struct dirent *d; (d = directory_next(dir)); level->count++)
        buf_add(&text, d->d_name, strlen(d->d_name) + 1);
    if (errno != 0 && errno != ENOENT)
        return -errno;
    level->text = buf_dup_take(&text);
    level->names = xalloc((level->count + 1) * sizeof(*level->names));
    for (size_t i = 0, at = 0; i < level->count; at += strlen(level->text + at) + 1)
        level->names[i++] = level->text + at;
    if (is_sorted && level->count > 0)
        qsort(level->names, level->count, sizeof(*level->names), by_name);
    return 0;
}

/* Takes `fd`, the directory that file_walk_state.path names. */
static int file_walk_push(struct file_walk_state *w, int fd)
{
    struct file_walk_level level = { .fd = fd, .path_len = w->path.len };
    int r = w->depth > FILE_WALK_DEPTH_MAX ? -ENAMETOOLONG : level_read(&level, w->is_sorted);

    if (r < 0) {
        level_done(&level);
        return report_here(w, r, r == -ENAMETOOLONG ? "going deeper than" : "reading directory");
    }
    vec_room(&w->levels, &w->cap, w->depth);
    w->levels[w->depth++] = level;
    if (w->depth > OPEN_LEVELS)
        close(steal_fd(&w->levels[w->depth - OPEN_LEVELS - 1].fd));
    return 0;
}

/* Reopens a level. ".." of the child that the walk leaves is one step, if that is still the same directory. Otherwise the
 * level's path is opened; if nothing is there any more, the remaining names are skipped. */
static int file_walk_reopen(struct file_walk_state *w, struct file_walk_level *level, int child_fd)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    struct stat st;

    level->fd = openat(child_fd, "..", flags);
    if (level->fd >= 0 && fstat(level->fd, &st) == 0 && st.st_dev == level->dev && st.st_ino == level->ino)
        return 0;
    cleanup_fd(&level->fd);
    w->path.len = level->path_len;
    if (w->path.data)
        w->path.data[w->path.len] = '\0';
    level->fd = path_open_beneath(w->root_fd, level->path_len ? w->path.data : ".", O_RDONLY | O_DIRECTORY, 0);
    if (level->fd >= 0)
        return 0;
    int r = level->fd;
    level->fd = -1;
    level->count = level->next;
    return is_vanished(r) ? 0 : report_here(w, r, "reading directory");
}

static int file_walk_pop(struct file_walk_state *w)
{
    struct file_walk_level *left = &w->levels[--w->depth], *top = w->depth > 0 ? &w->levels[w->depth - 1] : NULL;
    int r = top && top->fd < 0 ? file_walk_reopen(w, top, left->fd) : 0;

    level_done(left);
    return r;
}

static int file_walk_descend(struct file_walk_state *w, int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        return file_walk_push(w, fd);
    return is_vanished(-errno) ? 0 : report_here(w, -errno, "reading directory");
}

static int file_walk_visit(struct file_walk_state *w, const struct file_walk_level *level, const char *name)
{
    struct file_entry entry = { .dirfd = level->fd, .name = name, .depth = (unsigned) w->depth };
    struct stat st;
    int r;

    w->path.len = level->path_len;
    if (w->path.len)
        buf_add_char(&w->path, '/');
    buf_add_str(&w->path, name);
    if (fstatat(entry.dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return is_vanished(-errno) ? 0 : report_here(w, -errno, "reading");
    entry.path = w->path.data;
    entry.path_len = w->path.len;
    entry.st = &st;
    r = w->fn(&entry, w->cookie);
    if (r < 0)
        return r;
    if (r == FILE_WALK_STOP)
        return 1;
    return r == FILE_WALK_ON && S_ISDIR(st.st_mode) ? file_walk_descend(w, entry.dirfd, name) : 0;
}

static int walk_run(int dirfd, const char *relpath, bool is_sorted, file_walk_fn fn, void *cookie, struct err *err)
{
    autofd int root = path_open_beneath(dirfd, relpath, O_RDONLY | O_DIRECTORY, 0);
    struct file_walk_state w = { .root_fd = root, .is_sorted = is_sorted, .fn = fn, .cookie = cookie, .err = err };
    int r, fd = root < 0 ? root : openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return file_walk_report(err, root < 0 ? root : -errno, "reading directory", relpath, strlen(relpath));
    r = file_walk_push(&w, fd);
    while (r == 0 && w.depth > 0) {
        struct file_walk_level *top = &w.levels[w.depth - 1];
        r = top->next < top->count ? file_walk_visit(&w, top, top->names[top->next++]) : file_walk_pop(&w);
    }
    walk_done(&w);
    return r;
}

int file_walk(int dirfd, const char *relpath, file_walk_fn fn, void *cookie, struct err *err)
{
    return walk_run(dirfd, relpath, false, fn, cookie, err);
}

int file_walk_sorted(int dirfd, const char *relpath, file_walk_fn fn, void *cookie, struct err *err)
{
    return walk_run(dirfd, relpath, true, fn, cookie, err);
}
