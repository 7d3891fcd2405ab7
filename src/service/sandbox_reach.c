#include "service/sandbox_reach.h"

#include <errno.h>
#include <fcntl.h>

#include "service/sandbox_care.h"
#include "service/service_int.h"

int sandbox_reach_conn(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret,
                       struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = service_find_sandbox(service, caller, id, &row, err);

    if (r < 0)
        return r;
    return sandbox_row_is_over_directory(&row) ? sandboxes_find_conn(service, caller, row.id, ret, err)
                                               : service_find_conn(service, caller, row.id, ret, err);
}

int sandbox_reach_dir(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = service_find_sandbox(service, caller, id, &row, err);
    int fd;

    if (r < 0)
        return r;
    fd = openat(service->state_dir.sandboxes_fd, row.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "opening the directory of sandbox %s", id);
    *ret_fd = fd;
    return 0;
}
