#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* openat2() fails with EAGAIN if a rename or mount raced with its walk. A hostile renamer can keep that up, so the attempts are
 * counted. */
#define RACE_TRIES 32

#define LINKS_MAX 40 /* the kernel's limit */

/* O_PATH: a walk needs search permission only. */
#define STEP_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

bool path_next_component(const char **cursor, const char *end, struct path_component *ret)
{
    const char *at = *cursor, *stop;

    while (at < end && *at == '/')
        at++;
    *cursor = at;
    if (at == end)
        return false;
    stop = memchr(at, '/', (size_t) (end - at));
    *cursor = stop ? stop : end;
    *ret = (struct path_component){ .name = at, .len = (size_t) (*cursor - at) };
    return true;
}

bool path_component_is(const struct path_component *c, const char *name)
{
    return c->len == strlen(name) && memcmp(c->name, name, c->len) == 0;
}

/* Removes the last component of "/a/b". Returns false at the root. */
static bool path_drop_last(struct buf *b)
{
    if (b->len == 0)
        return false;
    while (b->data[--b->len] != '/')
        ;
    b->data[b->len] = '\0';
    return true;
}

int path_clean(const char *path, size_t len, struct buf *out)
{
    const char *at = path, *end = path + len;
    struct path_component c;

    buf_clear(out);
    if (len == 0 || memchr(path, '\0', len))
        return -EINVAL;
    while (path_next_component(&at, end, &c)) {
        if (path_component_is(&c, "."))
            continue;
        if (path_component_is(&c, "..")) {
            if (!path_drop_last(out))
                return -EXDEV;
            continue;
        }
        buf_add_char(out, '/');
        buf_add(out, c.name, c.len);
    }
    if (out->len == 0)
        buf_add_char(out, '/');
    return 0;
}

bool path_is_beneath(const char *root, const char *path)
{
    size_t len = strlen(root);

    if (len == 1 && root[0] == '/')
        return path[0] == '/';
    return strncmp(root, path, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* The kernel would allow ".." that stays inside. Nothing needs it, and refusing it makes both ways of walking agree. */
static int check_relative(const char *relpath)
{
    const char *end = relpath + strlen(relpath);
    struct path_component c;

    if (*relpath == '\0')
        return -ENOENT;
    if (*relpath == '/')
        return -EXDEV;
    for (const char *at = relpath; path_next_component(&at, end, &c);)
        if (path_component_is(&c, ".."))
            return -EXDEV;
    return 0;
}

static int open_at(int dirfd, const char *name, int flags, mode_t mode)
{
    int fd = openat(dirfd, name, flags, mode);

    return fd < 0 ? -errno : fd;
}

static int open_kernel(int dirfd, const char *relpath, int flags, mode_t mode)
{
    /* openat2() refuses input that openat() ignores: a mode without O_CREAT, and mode bits beyond 07777. */
    bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    struct open_how how = {
        .flags = (unsigned) flags,
        .mode = creates ? mode & 07777 : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };

    for (int i = 0; i < RACE_TRIES; i++) {
        long fd = syscall(SYS_openat2, dirfd, relpath, &how, sizeof(how));

        if (fd >= 0)
            return (int) fd;
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
    }
    return -EAGAIN;
}

/* Returns true if the error comes from a missing openat2(): ENOSYS before Linux 5.6, EPERM from the seccomp filters of old
 * container engines. The kernel refuses a `how` of size 0 with EINVAL before it checks anything else. */
static bool lacks_openat2(int r)
{
    if (r != -ENOSYS && r != -EPERM)
        return false;
    return syscall(SYS_openat2, AT_FDCWD, ".", NULL, (size_t) 0) < 0 && errno != EINVAL;
}

/* Copies a component into a NUL-terminated string. */
static int name_of(const struct path_component *c, char out[NAME_MAX + 1])
{
    if (c->len > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(out, c->name, c->len);
    out[c->len] = '\0';
    return 0;
}

/* With O_PATH or O_DIRECTORY the kernel reports a symlink as ENOTDIR. We report ELOOP, as documented. */
static int blame_link(int dirfd, const char *name, int r)
{
    struct stat st;

    if (r == -ENOTDIR && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
        return -ELOOP;
    return r;
}

static int step_into(int dirfd, const char *name)
{
    return blame_link(dirfd, name, open_at(dirfd, name, STEP_FLAGS, 0));
}

/* Splits "a/b/c" into "a/b/" and "c" and opens the first part. The last component has no slashes; it is "." if the path names
 * nothing else. *ret_end points behind it. */
static int walk_to_last(int dirfd, const char *relpath, struct path_component *ret_last, const char **ret_end, int *ret_fd)
{
    const char *at = relpath, *end = relpath + strlen(relpath);
    struct path_component c, next;
    char name[NAME_MAX + 1];
    autofd int dir = -1;
    int r;

    dir = open_at(dirfd, ".", STEP_FLAGS, 0);
    if (dir < 0)
        return dir;
    if (!path_next_component(&at, end, &c))
        return -ENOENT;
    for (*ret_end = at; path_next_component(&at, end, &next); c = next, *ret_end = at) {
        r = name_of(&c, name);
        if (r < 0)
            return r;
        int inner = step_into(dir, name);
        if (inner < 0)
            return inner;
        close(dir);
        dir = inner;
    }
    *ret_last = c;
    *ret_fd = steal_fd(&dir);
    return 0;
}

/* Does the work of open_kernel() one component at a time. */
static int open_walking(int dirfd, const char *relpath, int flags, mode_t mode)
{
    struct path_component last;
    char name[NAME_MAX + 1];
    autofd int dir = -1;
    const char *end;
    int r;

    r = walk_to_last(dirfd, relpath, &last, &end, &dir);
    if (r < 0)
        return r;
    r = name_of(&last, name);
    if (r < 0)
        return r;
    if (*end != '/')
        return open_at(dir, name, flags, mode);
    /* A trailing slash asks for a directory, and the kernel creates no file under such a name. */
    if (flags & O_CREAT)
        return -EISDIR;
    return blame_link(dir, name, open_at(dir, name, flags | O_DIRECTORY, mode));
}

bool path_is_absent(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV || r == -EACCES || r == -ENAMETOOLONG;
}

static int open_beneath(int dirfd, const char *relpath, int flags, mode_t mode)
{
    int r = open_kernel(dirfd, relpath, flags, mode);

    return lacks_openat2(r) ? open_walking(dirfd, relpath, flags, mode) : r;
}

/* The kernel rejects paths of PATH_MAX bytes or more, but trees can contain them: `while mkdir d; do cd d; done`. Such a path
 * is opened in parts, each beneath the directory of the previous one. */
int path_open_beneath(int dirfd, const char *relpath, int flags, mode_t mode)
{
    char part[PATH_MAX];
    autofd int at = -1;
    int r = check_relative(relpath);

    if (r < 0)
        return r;
    for (size_t left = strlen(relpath); left >= PATH_MAX;) {
        const char *slash = memrchr(relpath, '/', PATH_MAX - 1);
        if (!slash)
            return -ENAMETOOLONG;
        memcpy(part, relpath, (size_t) (slash - relpath));
        part[slash - relpath] = '\0';
        r = open_beneath(at < 0 ? dirfd : at, part, STEP_FLAGS, 0);
        if (r < 0)
            return blame_link(at < 0 ? dirfd : at, part, r);
        cleanup_fd(&at);
        at = r;
        relpath = slash + 1 + strspn(slash + 1, "/");
        left = strlen(relpath);
    }
    return open_beneath(at < 0 ? dirfd : at, *relpath ? relpath : ".", flags | O_CLOEXEC | O_NOFOLLOW, mode);
}

int path_open_real(const char *path, int flags)
{
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (root < 0)
        return -errno;
    path += strspn(path, "/");
    return path_open_beneath(root, *path ? path : ".", flags, 0);
}

/* Returns true if only root or we can have made the link: its owner is one of us, and nobody else can replace files in its
 * directory. */
static bool is_trusted_link(const struct stat *link, const struct stat *dir)
{
    uid_t self = geteuid();

    return (link->st_uid == 0 || link->st_uid == self) && (dir->st_uid == 0 || dir->st_uid == self) &&
           (!(dir->st_mode & (S_IWGRP | S_IWOTH)) || (dir->st_mode & S_ISVTX));
}

/* Replaces the link's name in `todo` by its target. Returns 1 if the target is absolute, 0 if not. */
static int expand_trusted(int dir, int link, const char *rest, char todo[PATH_MAX])
{
    char target[PATH_MAX];
    struct stat link_st, dir_st;
    ssize_t len = readlinkat(link, "", target, sizeof(target));

    if (len < 0 || fstat(link, &link_st) < 0 || fstat(dir, &dir_st) < 0)
        return -errno;
    if (!is_trusted_link(&link_st, &dir_st))
        return -ELOOP;
    if ((size_t) len + strlen(rest) + 1 >= PATH_MAX)
        return -ENAMETOOLONG;
    memmove(todo + len, rest, strlen(rest) + 1);
    memcpy(todo, target, (size_t) len);
    return *target == '/';
}

int path_open_trusted(const char *path, int flags)
{
    autofd int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char todo[PATH_MAX], name[NAME_MAX + 1];
    const char *at = todo;
    struct path_component c;
    int links = 0;

    if (strlen(path) >= sizeof(todo))
        return -ENAMETOOLONG;
    memcpy(todo, path, strlen(path) + 1);
    while (dir >= 0 && path_next_component(&at, todo + strlen(todo), &c)) {
        struct stat st;
        int r = name_of(&c, name);
        autofd int next = r < 0 ? r : open_at(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);

        if (next < 0 || fstat(next, &st) < 0)
            return next < 0 ? next : -errno;
        if (S_ISLNK(st.st_mode)) {
            r = ++links > LINKS_MAX ? -ELOOP : expand_trusted(dir, next, at, todo);
            if (r < 0)
                return r;
            close(next);
            next = open_at(r ? AT_FDCWD : dir, r ? "/" : ".", STEP_FLAGS, 0);
            at = todo;
        }
        close(dir);
        dir = steal_fd(&next);
    }
    return dir < 0 ? dir : open_at(dir, ".", flags | O_CLOEXEC, 0);
}

char *path_of_open(int fd)
{
    char link[64], real[PATH_MAX];
    ssize_t len;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, real, sizeof(real));
    return len <= 0 || (size_t) len >= sizeof(real) || *real != '/' ? NULL : strndup(real, (size_t) len);
}

int path_open_parent_beneath(int dirfd, const char *relpath, int *ret_fd, const char **ret_name)
{
    const char *slash = strrchr(relpath, '/'), *name = slash ? slash + 1 : relpath;
    autofree char *parent = NULL;
    int r = check_relative(relpath);

    if (r < 0)
        return r;
    if (*name == '\0' || strcmp(name, ".") == 0)
        return -EINVAL;
    parent = slash ? strndup(relpath, (size_t) (name - relpath)) : strdup(".");
    if (!parent)
        return -ENOMEM;
    r = path_open_beneath(dirfd, parent, O_PATH | O_DIRECTORY, 0);
    if (r < 0)
        return r;
    *ret_fd = r;
    *ret_name = name;
    return 0;
}

int path_stat_beneath(int dirfd, const char *relpath, struct stat *ret)
{
    autofd int parent = -1;
    const char *name;
    int r = path_open_parent_beneath(dirfd, relpath, &parent, &name);

    return r < 0 ? r : fstatat(parent, name, ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int path_unlink_beneath(int dirfd, const char *relpath, int flags)
{
    autofd int parent = -1;
    const char *name;
    int r = path_open_parent_beneath(dirfd, relpath, &parent, &name);

    return r < 0 ? r : unlinkat(parent, name, flags) < 0 ? -errno : 0;
}

/* Opens first, because mkdirat() on a read-only file system fails even if the directory exists. A directory that another
 * process creates in between serves as well. */
static int make_and_step(int dirfd, const char *name, mode_t mode)
{
    int fd = step_into(dirfd, name);

    if (fd != -ENOENT)
        return fd;
    if (mkdirat(dirfd, name, mode) < 0 && errno != EEXIST)
        return -errno;
    return step_into(dirfd, name);
}

int path_mkdirs_beneath(int dirfd, const char *relpath, mode_t mode)
{
    const char *at = relpath, *end = relpath + strlen(relpath), *last;
    char name[NAME_MAX + 1];
    struct path_component c;
    autofd int dir = -1;
    int r = check_relative(relpath);

    if (r < 0)
        return r;
    /* Usually only the last directory is missing, and a separate step for each parent is slow in a deep tree. */
    if (path_open_parent_beneath(dirfd, relpath, &dir, &last) == 0)
        at = last;
    else
        dir = open_at(dirfd, ".", STEP_FLAGS, 0);
    if (dir < 0)
        return dir;
    while (path_next_component(&at, end, &c)) {
        r = name_of(&c, name);
        if (r < 0)
            return r;
        int inner = make_and_step(dir, name, mode);
        if (inner < 0)
            return inner;
        close(dir);
        dir = inner;
    }
    return 0;
}
