#include "review/git_location.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/root_dir.h"

#define POINTER_MAX (PATH_MAX + 16)
#define ALTERNATES_MAX (64 << 10)
#define ALTERNATES_DEPTH 5 /* as git */
#define DEPTH_MAX 128

void git_location_done(struct git_location *location)
{
    free(location->top);
    cleanup_fd(&location->git_fd);
    cleanup_fd(&location->common_fd);
    *location = GIT_LOCATION_NONE;
}

/* Opens `to`, relative to the directory `from`, and returns its path. */
static int open_within_roots(const char *const *roots, const char *from, const char *to, int flags, char **ret_path)
{
    autofree char *joined = *to == '/' ? xdup(to) : xprintf("%s/%s", from, to);
    autodone(buf) struct buf clean = BUF_EMPTY;
    autofd int fd = -EPERM;

    if (path_clean(joined, strlen(joined), &clean) == 0)
        fd = root_dirs_reach(roots, clean.data, flags);
    if (fd >= 0 && !(*ret_path = path_of_open(fd)))
        return -ENOENT;
    return fd < 0 ? fd : steal_fd(&fd);
}

/* Reads the first line of a small file, after `prefix`; NULL: there is no such file. */
static char *read_pointer(int dir_fd, const char *name, const char *prefix)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    if (file_read(dir_fd, name, POINTER_MAX, &text) < 0 || !text.data || strncmp(text.data, prefix, strlen(prefix)) != 0)
        return NULL;
    text.data[strcspn(text.data, "\r\n")] = '\0';
    return xdup(text.data + strlen(prefix));
}

/* Git looks for objects in all of these. A missing directory is fine if its place is within the roots. */
static int check_objects(const char *const *roots, const char *from, const char *to, int depth)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofree char *path = NULL;
    autofd int fd = open_within_roots(roots, from, to, O_RDONLY | O_DIRECTORY, &path);
    int r;

    if (fd < 0)
        return fd == -EPERM ? fd : 0;
    autofree char *info = NULL;
    autofd int info_fd = open_within_roots(roots, path, "info/alternates", O_PATH, &info);
    if (info_fd < 0)
        return info_fd == -EPERM ? info_fd : 0;
    r = file_read(fd, "info/alternates", ALTERNATES_MAX, &text);
    if (r < 0 || depth >= ALTERNATES_DEPTH)
        return -EPERM; /* it may name further stores */
    for (char *line = text.data, *next; r == 0 && line && *line; line = next) {
        next = line + strcspn(line, "\n");
        next += *next ? 1 : 0;
        line[strcspn(line, "\n")] = '\0';
        if (*line && *line != '#')
            r = check_objects(roots, path, line, depth + 1);
    }
    return r;
}

/* Checks the links in a repository's own directory. confine.h refuses those further down when they are opened. */
static int check_links(const char *const *roots, const char *path, int dir_fd)
{
    autodirectory names = directory_open(dir_fd);

    if (!names)
        return -errno;
    for (const struct dirent *d; (d = directory_next(names));) {
        autofree char *to = NULL;
        struct stat st;

        if (fstatat(dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISLNK(st.st_mode))
            continue;
        autofd int fd = open_within_roots(roots, path, d->d_name, O_PATH, &to);
        if (fd == -EPERM)
            return fd;
    }
    return 0;
}

/* Returns the repository that a directory names; NULL: none. */
static char *find_pointer(int dir_fd)
{
    autofd int fd = openat(dir_fd, ".git", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char target[PATH_MAX];
    struct stat st;
    ssize_t len;

    if (fd < 0 || fstat(fd, &st) < 0)
        return NULL;
    if (S_ISREG(st.st_mode))
        return read_pointer(dir_fd, ".git", "gitdir: ");
    if (S_ISDIR(st.st_mode))
        return faccessat(fd, "HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? xdup(".git") : NULL;
    len = S_ISLNK(st.st_mode) ? readlinkat(fd, "", target, sizeof(target)) : -1;
    return len <= 0 || (size_t) len == sizeof(target) ? NULL : xdupn(target, (size_t) len);
}

/* Returns 1 if the repository is here, otherwise 0. */
static int find_repository_in(const char *const *roots, int dir_fd, const char *dir, struct git_location *ret)
{
    autofree char *pointer = find_pointer(dir_fd), *git = NULL, *to = NULL, *common = NULL;
    int r;

    if (!pointer)
        return 0;
    ret->git_fd = open_within_roots(roots, dir, pointer, O_RDONLY | O_DIRECTORY, &git);
    if (ret->git_fd < 0)
        return ret->git_fd;
    to = read_pointer(ret->git_fd, "commondir", "");
    ret->common_fd = open_within_roots(roots, git, to ? to : ".", O_RDONLY | O_DIRECTORY, &common);
    if (ret->common_fd < 0)
        return ret->common_fd;
    r = roots ? check_objects(roots, common, "objects", 0) : 0;
    if (r == 0 && roots)
        r = check_links(roots, git, ret->git_fd);
    if (r == 0 && roots)
        r = check_links(roots, common, ret->common_fd);
    if (r < 0)
        return r;
    ret->top = xdup(dir);
    return 1;
}

int git_location_find(const char *project_path, const char *const *roots, struct git_location *ret)
{
    autofree char *at = NULL;
    autofd int project = open_within_roots(roots, "/", project_path, O_PATH | O_DIRECTORY, &at);

    if (project < 0)
        return project == -EPERM ? project : -ENOENT;
    for (int i = 0; i < DEPTH_MAX; i++) {
        struct git_location location = GIT_LOCATION_NONE;
        autofd int dir = root_dirs_reach(roots, at, O_RDONLY | O_DIRECTORY);
        int r = dir < 0 ? -ENOENT : find_repository_in(roots, dir, at, &location); /* above the roots there is none for us */
        char *slash = strrchr(at, '/');

        if (r == 1) {
            *ret = location;
            return 0;
        }
        git_location_done(&location);
        if (r < 0 || strcmp(at, "/") == 0)
            return r == 0 ? -ENOENT : r;
        slash[slash == at] = '\0';
    }
    return -ENOENT;
}
