#include "service/workspace_reach.h"

#include <errno.h>
#include <fcntl.h>

#include "service/service_int.h"
#include "service/workspaces.h"

int workspace_reach_dir(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err)
{
    autodone(workspace_row) struct workspace_row row = { 0 };
    char name[WORKSPACE_NAME_MAX];
    int r = workspaces_get(service, caller, id, &row, err);
    int fd;

    if (r < 0)
        return r;
    workspace_name(id, name);
    fd = openat(service->home.sandboxes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "opening the directory of sandbox %s", id);
    *ret_fd = fd;
    return 0;
}
