#include "service/workspace_reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/id.h"
#include "service/service_int.h"
#include "service/workspaces.h"

bool workspace_reach_is_sandbox(const char *id)
{
    return id_is_valid(SANDBOX_ID_PREFIX, id);
}

int workspace_reach_ward(struct service *service, const struct caller *caller, const char *id, struct ward **ret,
                         struct err *err)
{
    return workspace_reach_is_sandbox(id) ? service_find_ward(service, caller, id, ret, err)
                                          : workspaces_find_ward(service, caller, id, ret, err);
}

static int check_seen(struct service *service, const struct caller *caller, const char *id, char name[WORKSPACE_NAME_MAX],
                      struct err *err)
{
    autodone(workspace_row) struct workspace_row row = { 0 };
    autodone(sandbox_row) struct sandbox_row sandbox = { 0 };

    if (workspace_reach_is_sandbox(id)) {
        snprintf(name, WORKSPACE_NAME_MAX, "%s", id);
        return service_get_own_sandbox(service, caller, id, &sandbox, err);
    }
    workspace_name(id, name);
    return workspaces_get(service, caller, id, &row, err);
}

int workspace_reach_dir(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err)
{
    char name[WORKSPACE_NAME_MAX];
    int r = check_seen(service, caller, id, name, err);
    int fd;

    if (r < 0)
        return r;
    fd = openat(service->state_dir.sandboxes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "opening the directory of sandbox %s", id);
    *ret_fd = fd;
    return 0;
}
