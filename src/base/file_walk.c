#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/path.h"

/* One open directory per level and no recursion: a tree made deep on purpose costs descriptors up to a limit, not our stack. */
struct level {
    DIR *dir;        /* owned */
    size_t path_len; /* of the directory's path in walk.path */
};

struct walk {
    struct level *levels; /* owned; the first `depth` are in use */
    size_t cap, depth;
    struct buf path;
    file_walk_fn fn;
    void *cookie;
    struct err *err;
};

static void pop(struct walk *w)
{
    closedir(w->levels[--w->depth].dir);
}

static void walk_done(struct walk *w)
{
    while (w->depth > 0)
        pop(w);
    free(w->levels);
    buf_done(&w->path);
}

/* `path` is empty where the walk began. */
static int report(struct err *err, int r, const char *what, const char *path, size_t len)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    buf_addf(&text, "%s '", what);
    buf_add_escaped(&text, len ? path : ".", len ? len : 1);
    return err_errno(err, r, "%s'", text.data);
}

static int report_here(struct walk *w, int r, const char *what)
{
    return report(w->err, r, what, w->path.data, w->path.len);
}

/* Takes over `fd`; walk.path names the directory. */
static int push(struct walk *w, int fd)
{
    DIR *dir;

    if (w->depth > FILE_WALK_DEPTH_MAX) {
        close(fd);
        return report_here(w, -ENAMETOOLONG, "going deeper than");
    }
    dir = fdopendir(fd);
    if (!dir) {
        int r = -errno;
        close(fd);
        return report_here(w, r, "reading directory");
    }
    vec_room(&w->levels, &w->cap, w->depth);
    w->levels[w->depth++] = (struct level){ .dir = dir, .path_len = w->path.len };
    return 0;
}

static bool is_vanished(int r)
{
    /* A directory replaced by a file or a link meanwhile is as gone as one that was removed. */
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

static int descend(struct walk *w, int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        return push(w, fd);
    return is_vanished(-errno) ? 0 : report_here(w, -errno, "reading directory");
}

static int visit(struct walk *w, const struct level *level, const char *name)
{
    struct file_entry entry = { .dirfd = dirfd(level->dir), .name = name, .depth = (unsigned) w->depth };
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
    return r == FILE_WALK_ON && S_ISDIR(st.st_mode) ? descend(w, entry.dirfd, name) : 0;
}

static int step(struct walk *w)
{
    const struct level *top = &w->levels[w->depth - 1];
    struct dirent *entry;

    errno = 0;
    entry = readdir(top->dir);
    if (!entry && errno != 0 && errno != ENOENT) {
        int r = -errno;
        w->path.len = top->path_len;
        return report_here(w, r, "reading directory");
    }
    if (!entry) {
        pop(w);
        return 0;
    }
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return 0;
    return visit(w, top, entry->d_name);
}

int file_walk(int dirfd, const char *relpath, file_walk_fn fn, void *cookie, struct err *err)
{
    struct walk w = { .fn = fn, .cookie = cookie, .err = err };
    int r, fd = path_open_beneath(dirfd, relpath, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return report(err, fd, "reading directory", relpath, strlen(relpath));
    r = push(&w, fd);
    while (r == 0 && w.depth > 0)
        r = step(&w);
    walk_done(&w);
    return r;
}
