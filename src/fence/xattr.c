#include "fence/xattr.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fence/layer.h"

#define OUR_PREFIX "user.agentfense."

bool xattr_is_shown(const char *name)
{
    return strncmp(name, "user.", 5) == 0 && strncmp(name, OUR_PREFIX, strlen(OUR_PREFIX)) != 0;
}

size_t xattr_filter(char *list, size_t len)
{
    size_t kept = 0;

    for (size_t at = 0, n; at < len; at += n) {
        n = strnlen(list + at, len - at) + 1;
        if (at + n > len)
            break;
        if (!xattr_is_shown(list + at))
            continue;
        memmove(list + kept, list + at, n);
        kept += n;
    }
    return kept;
}

bool xattr_any(int fd)
{
    char list[4096];
    ssize_t n = flistxattr(fd, list, sizeof(list));

    return n < 0 ? errno == ERANGE : xattr_filter(list, (size_t) n) > 0;
}

void xattr_copy(int from, int to)
{
    ssize_t len = flistxattr(from, NULL, 0);
    autofree char *list = len > 0 ? malloc((size_t) len) : NULL;
    autofree char *value = list ? malloc(XATTR_SIZE_MAX) : NULL;

    if (!value || (len = flistxattr(from, list, (size_t) len)) <= 0)
        return;
    len = (ssize_t) xattr_filter(list, (size_t) len);
    for (const char *name = list; name < list + len; name += strlen(name) + 1) {
        ssize_t n = fgetxattr(from, name, value, XATTR_SIZE_MAX);
        if (n >= 0 && fsetxattr(to, name, value, (size_t) n, 0) < 0)
            continue;
    }
}

void xattr_copy_dir(struct fence *f, struct inode *base_dir, int to)
{
    autofd int from = layer_open_listing(f, base_dir, LAYER_BASE);

    if (from >= 0)
        xattr_copy(from, to);
}
