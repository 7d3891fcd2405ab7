#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "service/workspace_int.h"
#include "service/workspace_scope.h"

static void refuse(struct workspace_place *place, const char *why)
{
    if (!*place->error)
        snprintf(place->error, sizeof(place->error), "%s", why);
}

void workspaces_check_path(struct service *service, const struct caller *caller, const char *path, const char *project_root,
                           struct workspace_place *ret)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    const char *root = *project_root ? project_root : service->options.project_root;
    struct stat st;

    *ret = (struct workspace_place){ 0 };
    if (*path != '/' || strlen(path) >= PATH_MAX || path_clean(path, strlen(path), &clean) < 0) {
        refuse(ret, "the path must be absolute");
        return;
    }
    autofree char *real = realpath(clean.data, NULL), *real_root = *root ? realpath(root, NULL) : NULL;
    const char *shown = real ? real : clean.data;
    /* What lies outside of what they may have is not told apart from what is not there. */
    if (!workspace_scope_is_allowed(caller, shown)) {
        refuse(ret, "this token allows no sandbox there");
        return;
    }
    if (workspace_scope_is_system(shown))
        refuse(ret, "the path is a system directory");
    ret->exists = real && stat(real, &st) == 0;
    ret->is_directory = ret->exists && S_ISDIR(st.st_mode);
    ret->is_within = *root && path_is_beneath(real_root ? real_root : root, shown);
    if (!ret->exists)
        refuse(ret, "the path does not exist");
    else if (!ret->is_directory)
        refuse(ret, "the path is no directory");
    else if (*root && !ret->is_within)
        refuse(ret, "the path is not within the project root");
    else if (path_is_beneath(shown, service->home.path) || path_is_beneath(service->home.path, shown))
        refuse(ret, "the path holds the server's own state, or is within it");
    ret->is_valid = !*ret->error;
}
