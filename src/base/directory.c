#include "base/directory.h"

#include <fcntl.h>
#include <string.h>

DIR *directory_take(int take_fd)
{
    autofd int fd = take_fd;
    DIR *dir;

    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    dir = fdopendir(fd);
    if (dir)
        steal_fd(&fd);
    return dir;
}

DIR *directory_open(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return directory_take(copy < 0 ? -errno : copy);
}

const struct dirent *directory_next(DIR *dir)
{
    const struct dirent *d = NULL;

    while (dir && (d = readdir(dir)) && (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0))
        ;
    return d;
}
