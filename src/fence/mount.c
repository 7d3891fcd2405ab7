#include "fence/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "fence/attr.h"
#include "fence/passthrough.h"
#include "fence/session.h"

/* If one were inside another, the fence would call itself or show its own delta. */
static int check_apart(const char *a, const char *a_is, const char *b, const char *b_is, struct err *err)
{
    if (path_is_beneath(a, b) || path_is_beneath(b, a))
        return err_invalid(err, "%s '%s' and %s '%s' lie in one another", a_is, a, b_is, b);
    return 0;
}

static int check_mount_point(struct fence *f, const char *path, struct err *err)
{
    struct stat st;
    int r;

    if (stat(path, &st) < 0)
        return err_errno(err, -errno, "mount point '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return err_errno(err, -ENOTDIR, "mount point '%s'", path);
    r = check_apart(f->base_path, "base", path, "mount point", err);
    return r == 0 ? check_apart(f->delta_path, "delta", path, "mount point", err) : r;
}

/*
 * The kernel creates the root inode without permissions and asks for its attributes before it uses them. But it discards an
 * answer that crosses an invalidation (live base), and then refuses the process that waited for it. So the root starts with the
 * mode that the answer would give to the sandbox's user, for everybody: only the type and these bits can be given.
 */
static mode_t root_mode(struct fence *f)
{
    struct stat st;

    attr_fill(f, f->root, NULL, &st);
    return S_IFDIR | (st.st_mode >> 6 & 7) * 0111;
}

int mount_make(struct fence *f, const char *mount_point, struct err *err)
{
    char options[256];
    autofree char *real = realpath(mount_point, NULL);
    autofd int fd = -1;
    int r;

    if (!real)
        return err_errno(err, -errno, "mount point '%s'", mount_point);
    r = check_mount_point(f, real, err);
    if (r < 0)
        return r;
    fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "opening /dev/fuse");
    snprintf(options, sizeof(options), "fd=%d,rootmode=%o,user_id=%u,group_id=%u,default_permissions,allow_other,max_read=%u",
             fd, root_mode(f), (unsigned) geteuid(), (unsigned) getegid(), 1U << 20);
    if (mount("agentfense", real, "fuse.agentfense", MS_NOSUID | MS_NODEV, options) < 0)
        return err_errno(err, -errno, "mounting at '%s'", real);
    f->mount_point = steal_ptr(&real);
    r = session_attach(f->session, steal_fd(&fd));
    if (r < 0)
        return err_errno(err, r, "starting the session");
    if (f->data_path != FENCE_DATA_PASSTHROUGH)
        return 0;
    r = session_passthrough_fd(f->session);
    if (r >= 0)
        r = passthrough_new(f, r, &f->passthrough);
    return r < 0 ? err_errno(err, r, "the passthrough data path is not possible here (it needs Linux 6.9 and root)") : 0;
}

/* Detaches even if the mount is in use: users get ENOTCONN. By force where permitted, because nothing is served any more and a
 * thread that notifies the kernel may be waiting for a client that waits for us. A mount that was unmounted from outside is not
 * unmounted again: the mount point may belong to another by now. */
void mount_end(struct fence *f)
{
    if (!f->mount_point)
        return;
    if (!session_is_lost(f->session) && umount2(f->mount_point, MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
        umount2(f->mount_point, MNT_DETACH | UMOUNT_NOFOLLOW);
    free(f->mount_point);
    f->mount_point = NULL;
}
