#include "service/workspace_reach.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "service/service_int.h"

bool workspace_reach_name(const char *id, char out[WORKSPACE_NAME_MAX])
{
    size_t len = 3;

    memcpy(out, "ws_", 3);
    for (; *id; id++) {
        if (*id == '-')
            continue;
        if (!strchr("0123456789abcdef", *id) || len >= 3 + 32)
            return false;
        out[len++] = *id;
    }
    out[len] = '\0';
    return len == 3 + 32;
}

static int refuse_unknown(struct err *err)
{
    return err_because(err, err_set(err, ERR_NOT_FOUND, -ENOENT, "sandbox not found"), "SANDBOX_NOT_FOUND");
}

static bool is_seen(struct ward *ward, const struct caller *caller)
{
    bool seen;

    pthread_mutex_lock(&ward->lock);
    seen = ward->owner && caller_sees(caller, ward->owner);
    pthread_mutex_unlock(&ward->lock);
    return seen;
}

int workspace_reach_dir(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err)
{
    char name[WORKSPACE_NAME_MAX];
    int fd;

    if (!workspace_reach_name(id, name))
        return refuse_unknown(err);
    autoptr(ward) ward = ward_find_running(&service->wards, name);
    /* Whose one is that does not run, only its row tells. */
    if (ward ? !is_seen(ward, caller) : !caller->is_admin)
        return refuse_unknown(err);
    fd = openat(service->home.sandboxes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? refuse_unknown(err) : err_errno(err, -errno, "opening the directory of sandbox '%s'", id);
    *ret_fd = fd;
    return 0;
}

int workspace_reach_ward(struct service *service, const struct caller *caller, const char *id, struct ward **ret,
                         struct err *err)
{
    char name[WORKSPACE_NAME_MAX];
    autofd int dir_fd = -1;
    int r;

    if (!workspace_reach_name(id, name))
        return refuse_unknown(err);
    autoptr(ward) ward = ward_find_running(&service->wards, name);
    if (ward && is_seen(ward, caller)) {
        *ret = steal_ptr(&ward);
        return 0;
    }
    r = workspace_reach_dir(service, caller, id, &dir_fd, err);
    return r < 0 ? r : err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN, "sandbox is not active");
}
