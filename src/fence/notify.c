#include "fence/notify.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>

#include "fence/reply.h"
#include "fence/session.h"

static int notify_write(struct fence *f, int32_t code, struct iovec *parts, int count)
{
    struct fuse_out_header head = { .len = sizeof(head), .error = code };
    struct iovec iov[4] = { { &head, sizeof(head) } };

    for (int i = 0; i < count; i++) {
        iov[i + 1] = parts[i];
        head.len += (uint32_t) parts[i].iov_len;
    }
    return writev(session_device(f->session), iov, count + 1) < 0 ? -errno : 0;
}

int notify_entry(struct fence *f, struct inode *dir, const char *name, bool only_expire)
{
    struct fuse_notify_inval_entry_out out = {
        .parent = reply_node_of(f, dir),
        .namelen = (uint32_t) strlen(name),
        .flags = only_expire ? FUSE_EXPIRE_ONLY : 0,
    };

    return notify_write(f, FUSE_NOTIFY_INVAL_ENTRY,
                        (struct iovec[]){ { &out, sizeof(out) }, { (void *) (uintptr_t) name, out.namelen + 1 } }, 2);
}

int notify_pages(struct fence *f, struct inode *inode)
{
    struct fuse_notify_inval_inode_out out = { .ino = reply_node_of(f, inode) };

    return notify_write(f, FUSE_NOTIFY_INVAL_INODE, &(struct iovec){ &out, sizeof(out) }, 1);
}

/* The kernel holds a directory's lock shared while it lists it and caches the answer, and takes it exclusively to drop a name.
 * So dropping "." , which no directory contains, waits for answers under way. */
int notify_listing(struct fence *f, struct inode *dir)
{
    notify_entry(f, dir, ".", true);
    return notify_pages(f, dir);
}

/* The kernel looks up every cached name again at its next use, negative ones too. It drops nothing, so a process in a directory
 * stays there. */
int notify_all_names(struct fence *f)
{
    enum { NOTIFY_INC_EPOCH = 8 };

    return notify_write(f, NOTIFY_INC_EPOCH, NULL, 0);
}
