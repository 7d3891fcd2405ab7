#include "service/sandbox_scope.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/root_dir.h"

#define RESERVED_MAX 256

void sandbox_scope_done(struct sandbox_scope *scope)
{
    free(scope->project_root);
    free(scope->scope_path);
    for (size_t i = 0; scope->reserved_paths && scope->reserved_paths[i]; i++)
        free(scope->reserved_paths[i]);
    free(scope->reserved_paths);
    cleanup_fd(&scope->scope_fd);
    *scope = SANDBOX_SCOPE_NONE;
}

bool sandbox_scope_is_system(const char *path)
{
    static const char *const whole[] = { "/proc", "/sys", "/dev" };
    static const char *const alone[] = { "/",        "/bin",     "/sbin", "/usr",   "/etc",   "/var", "/tmp",
                                         "/root",    "/home",    "/boot", "/lib",   "/lib64", "/run", "/opt",
                                         "/usr/bin", "/usr/lib", "/srv",  "/media", "/mnt" };

    for (size_t i = 0; i < ARRAY_LEN(whole); i++)
        if (path_is_beneath(whole[i], path))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(alone); i++)
        if (strcmp(alone[i], path) == 0)
            return true;
    return false;
}

/* ---- the caller's roots ---- */

int sandbox_scope_reach(const struct caller *caller, const char *path, int flags, int *ret_fd, char **ret_path)
{
    autofd int fd = root_dirs_reach(caller->allowed_roots, path, flags);

    if (fd < 0)
        return fd;
    *ret_path = path_of_open(fd);
    if (!*ret_path)
        return -ENOENT;
    *ret_fd = steal_fd(&fd);
    return 0;
}

int sandbox_scope_refuse(const char *path, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, path, strlen(path));
    return err_set_reason(err,
                          err_set(err, ERR_PERMISSION_DENIED, -EPERM, "this token allows no sandbox over '%s'", shown.data),
                          "ROOT_NOT_ALLOWED");
}

static int open_real(const struct caller *caller, const char *path, const char *what, int *ret_fd, char **ret_path,
                     struct err *err)
{
    int r = sandbox_scope_reach(caller, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, ret_fd, ret_path);

    if (r == -EPERM && caller->allowed_roots)
        return sandbox_scope_refuse(path, err);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -ENAMETOOLONG || r == -EACCES)
        return err_set(err, ERR_INVALID_ARGUMENT, r, "%s '%s' is no directory that can be read: %s", what, path, strerror(-r));
    return r < 0 ? err_errno(err, r, "opening %s '%s'", what, path) : 0;
}

/* Cleans the path as text. A relative path starts at the root. */
static int join(const char *root, const char *path, struct buf *ret, struct err *err)
{
    autofree char *joined = *path == '/' ? xdup(path) : xprintf("%s/%s", root, path);

    if (strlen(joined) >= PATH_MAX || path_clean(joined, strlen(joined), ret) < 0) {
        err_reject(err, -EINVAL, path, "is no path");
        return -EINVAL;
    }
    return 0;
}

/* Like realpath(3), but the end of the path may be missing. */
static char *resolve_missing(const char *path)
{
    autofree char *part = xdup(path);
    char *real;

    while (!(real = realpath(part, NULL))) {
        char *slash = strrchr(part, '/');

        if (!slash || slash == part)
            return xdup(path);
        *slash = '\0';
    }
    autofree char *above = real;
    return xprintf("%s%s", strcmp(above, "/") == 0 ? "" : above, path + strlen(part));
}

/* The same for a caller who must not learn about anything outside of a directory: returns "/" for a path that leads out of it. */
static char *resolve_in(const struct root_dir *root, const char *path)
{
    autofree char *part = xdup(path);

    for (;;) {
        autofd int fd = root_dir_reach(root, part, O_PATH);
        autofree char *real = fd < 0 ? NULL : path_of_open(fd);
        char *slash = strrchr(part, '/');

        if (real)
            return xprintf("%s%s", real, path + strlen(part));
        if (fd == -EXDEV || !slash || slash == part)
            return xdup(fd == -EXDEV ? "/" : path);
        *slash = '\0';
    }
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Keeps the ancestor of two paths. In sorted order it comes before the paths beneath it, but other paths may be in between: "/a", "/a-b",
 * "/a/c". */
static void prune(char **paths, size_t count)
{
    size_t kept = 0;

    qsort(paths, count, sizeof(*paths), compare);
    for (size_t i = 0; i < count; i++) {
        bool is_covered = false;

        for (size_t j = 0; j < kept && !is_covered; j++)
            is_covered = path_is_beneath(paths[j], paths[i]);
        if (is_covered)
            free(paths[i]);
        else
            paths[kept++] = paths[i];
    }
    paths[kept] = NULL;
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

/* `asked` is the scope's path as the caller gave it. */
static int take_reserved(const struct sandbox_scope_request *request, bool bounded, const char *asked,
                         struct sandbox_scope *scope, struct err *err)
{
    autofree char *names = xdup(asked);
    const struct root_dir within = { scope->scope_fd, names, scope->scope_path };
    size_t count = 0, given = 0;

    while (request->reserved && request->reserved[given])
        given++;
    if (given > RESERVED_MAX)
        return err_invalid(err, "more than %d reserved paths", RESERVED_MAX);
    scope->reserved_paths = xalloc((given + 2) * sizeof(*scope->reserved_paths));
    if (request->no_lock)
        return 0;
    for (size_t i = 0; i < given; i++) {
        autodone(buf) struct buf clean = BUF_EMPTY;

        if (is_blank(request->reserved[i]))
            continue;
        int r = join(scope->project_root, request->reserved[i], &clean, err);
        if (r < 0)
            return r;
        char *real = scope->reserved_paths[count++] = bounded ? resolve_in(&within, clean.data) : resolve_missing(clean.data);
        if (!path_is_beneath(scope->scope_path, real))
            return err_invalid(err, "reserved path '%s' is not inside the scope '%s'", clean.data, scope->scope_path);
    }
    if (count == 0)
        scope->reserved_paths[count++] = xdup(scope->scope_path);
    prune(scope->reserved_paths, count);
    return 0;
}

static int check(const struct sandbox_scope_request *request, const struct sandbox_scope *scope, struct err *err)
{
    if (!path_is_beneath(scope->project_root, scope->scope_path))
        return err_invalid(err, "scope '%s' is not inside the project root '%s'", scope->scope_path, scope->project_root);
    if (sandbox_scope_is_system(scope->scope_path))
        return err_invalid(err, "'%s' is a system directory", scope->scope_path);
    if (path_is_beneath(scope->scope_path, request->state_path) || path_is_beneath(request->state_path, scope->scope_path))
        return err_invalid(err, "'%s' holds the server's own state, or is within it", scope->scope_path);
    return 0;
}

/* The scope's path beneath the root, opened without following links, must lead to the directory that was opened by its whole path. So a
 * user who replaces a directory by a link in between gets a refusal. */
static int check_same(int root_fd, int scope_fd, const struct sandbox_scope *scope, struct err *err)
{
    const char *below = scope->scope_path + strlen(scope->project_root);
    struct stat a, b;

    while (*below == '/')
        below++;
    autofd int fd = path_open_beneath(root_fd, *below ? below : ".", O_PATH | O_DIRECTORY, 0);
    if (err_errno_is_exhaustion(fd))
        return err_errno(err, fd, "opening scope '%s'", scope->scope_path);
    if (fd < 0 || fstat(fd, &a) < 0 || fstat(scope_fd, &b) < 0 || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
        return err_invalid(err, "scope '%s' changes while it is looked at", scope->scope_path);
    return 0;
}

int sandbox_scope_resolve(const struct sandbox_scope_request *request, const struct caller *caller, struct sandbox_scope *ret,
                          struct err *err)
{
    autodone(sandbox_scope) struct sandbox_scope scope = SANDBOX_SCOPE_NONE;
    autodone(buf) struct buf asked_root = BUF_EMPTY, asked = BUF_EMPTY;
    autofd int root_fd = -1;
    int r;

    if (*request->project_root != '/')
        return err_invalid(err, "the project root '%s' is no absolute path", request->project_root);
    r = join("", request->project_root, &asked_root, err);
    if (r == 0)
        r = open_real(caller, asked_root.data, "project root", &root_fd, &scope.project_root, err);
    if (r == 0)
        r = join(scope.project_root, request->scope_path, &asked, err);
    if (r == 0)
        r = open_real(caller, asked.data, "scope", &scope.scope_fd, &scope.scope_path, err);
    if (r < 0)
        return r;
    assert(scope.project_root && scope.scope_path);
    r = check(request, &scope, err);
    if (r == 0)
        r = check_same(root_fd, scope.scope_fd, &scope, err);
    if (r == 0)
        r = take_reserved(request, caller->allowed_roots, asked.data, &scope, err);
    if (r < 0)
        return r;
    *ret = scope;
    scope = SANDBOX_SCOPE_NONE;
    return 0;
}
