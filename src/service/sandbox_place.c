#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "service/sandbox_scope.h"
#include "service/sandbox_tend.h"

static void refuse(struct sandbox_place *place, const char *why)
{
    if (!*place->error)
        snprintf(place->error, sizeof(place->error), "%s", why);
}

static char *real_of(const char *path)
{
    char *real = *path ? realpath(path, NULL) : NULL;

    return real ? real : xdup(path);
}

int sandboxes_find_root(const struct caller *caller, const char *given, char **ret, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    autofree char *real = NULL;
    autofd int fd = -1;
    int r;

    if (!caller->allowed_roots || *given != '/' || path_clean(given, strlen(given), &clean) < 0) {
        *ret = caller->allowed_roots ? xdup(given) : real_of(given);
        return 0;
    }
    r = sandbox_scope_reach(caller, clean.data, O_PATH, &fd, &real);
    if (r == -EPERM)
        return sandbox_scope_refuse(given, err);
    *ret = r < 0 ? xdup(clean.data) : steal_ptr(&real);
    return 0;
}

void sandboxes_check_path(struct service *service, const struct caller *caller, const char *path, const char *project_root,
                          struct sandbox_place *ret)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    autofree char *real = NULL, *root = NULL;
    struct err ignored = ERR_NONE;
    autofd int fd = -1;
    struct stat st;
    int r;

    *ret = (struct sandbox_place){ 0 };
    if (*path != '/' || strlen(path) >= PATH_MAX || path_clean(path, strlen(path), &clean) < 0) {
        refuse(ret, "the path must be absolute");
        return;
    }
    r = sandbox_scope_reach(caller, clean.data, O_PATH, &fd, &real);
    /* The answer for a path outside of the caller's roots must not reveal whether it exists. */
    if (r == -EPERM && caller->allowed_roots) {
        refuse(ret, "this token allows no sandbox there");
        return;
    }
    if (*project_root && sandboxes_find_root(caller, project_root, &root, &ignored) < 0)
        root = xdup(project_root);
    else if (!*project_root)
        root = real_of(service->options.project_root);
    const char *shown = real ? real : clean.data;
    if (sandbox_scope_is_system(shown))
        refuse(ret, "the path is a system directory");
    ret->exists = r == 0 && fstat(fd, &st) == 0;
    ret->is_directory = ret->exists && S_ISDIR(st.st_mode);
    ret->is_within = *root && path_is_beneath(root, shown);
    if (!ret->exists)
        refuse(ret, "the path does not exist");
    else if (!ret->is_directory)
        refuse(ret, "the path is no directory");
    else if (*root && !ret->is_within)
        refuse(ret, "the path is not within the project root");
    else if (path_is_beneath(shown, service->state_dir.path) || path_is_beneath(service->state_dir.path, shown))
        refuse(ret, "the path holds the server's own state, or is within it");
    ret->is_valid = !*ret->error;
}
