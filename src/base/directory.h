/*
 * The names in a directory.
 *
 *     autodirectory dir = directory_open(fd);
 *
 *     for (const struct dirent *d; (d = directory_next(dir));)
 */
#pragma once

#include <dirent.h>

#include "base/cleanup.h"

/* Those of the directory that is open as `fd`, which stays as it is. NULL with errno set. */
DIR *directory_open(int fd);

/* Takes the descriptor, in any case; or the negative errno of one that could not be opened. NULL with errno set. */
DIR *directory_take(int take_fd);

/* The next but "." and "..". NULL at the end, where it cannot be read (with errno set, which the end leaves alone), and of NULL. */
const struct dirent *directory_next(DIR *dir);

#define autodirectory __attribute__((cleanup(cleanup_directory))) DIR *

static inline void cleanup_directory(DIR **dir)
{
    if (*dir) {
        int saved = errno;
        closedir(*dir);
        errno = saved;
    }
}
