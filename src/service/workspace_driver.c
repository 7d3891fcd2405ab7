#include "service/workspace_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "service/service_int.h"

#define PREFERENCE "workspace-driver" /* in the home */
#define FSOPEN_CLOEXEC_FLAG 1u

const char *const workspace_driver_names[] = { "fence", "overlayfs", "copy", NULL };

/* A context of the kernel's says whether it has an overlayfs for us; the mount itself is tried by the supervisor. Without root it is made in
 * a user namespace, which this process is not in: there we believe the list of the kernel's file systems. */
static bool has_overlayfs(void)
{
    autodone(buf) struct buf list = BUF_EMPTY;
    autofd int fd = (int) syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC_FLAG);
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        return true;
    return geteuid() != 0 && file_read(root, "proc/filesystems", 65536, &list) == 0 && list.data &&
           strstr(list.data, "\toverlay\n");
}

bool workspace_driver_works(const char *name)
{
    if (strcmp(name, "copy") == 0)
        return true;
    if (strcmp(name, "overlayfs") == 0)
        return has_overlayfs();
    autofd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    return fd >= 0;
}

static const char *find(const char *name)
{
    for (const char *const *at = workspace_driver_names; *at; at++)
        if (strcmp(*at, name) == 0)
            return *at;
    return NULL;
}

const char *workspace_driver_choose(struct service *service, const char *wanted)
{
    char preferred[WORKSPACE_DRIVER_MAX];

    workspace_driver_preferred(service, preferred);
    if (!*wanted)
        wanted = preferred;
    for (const char *const *at = workspace_driver_names; *at && strcmp(wanted, "auto") == 0; at++)
        if (workspace_driver_works(*at))
            return *at;
    return find(wanted);
}

int workspace_driver_prefer(struct service *service, const char *name, struct err *err)
{
    int r;

    if (!find(name) && strcmp(name, "auto") != 0)
        return err_refuse(err, -EINVAL, name, "is no driver that this server has");
    r = file_replace(service->home.fd, PREFERENCE, name, strlen(name), 0600);
    return r < 0 ? err_errno(err, r, "keeping the preferred driver") : 0;
}

void workspace_driver_preferred(struct service *service, char ret[WORKSPACE_DRIVER_MAX])
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = file_read(service->home.fd, PREFERENCE, WORKSPACE_DRIVER_MAX - 1, &text);
    bool is_one = r == 0 && text.data && (find(text.data) || strcmp(text.data, "auto") == 0);

    memcpy(ret, WORKSPACE_DRIVER, sizeof(WORKSPACE_DRIVER));
    if (is_one)
        memcpy(ret, text.data, text.len + 1);
}
