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

/* Lists the open directory `fd` without touching its offset. Returns NULL with errno set on failure. */
DIR *directory_open(int fd);

/* Takes the descriptor in every case. A negative `take_fd` is the -errno of a failed open(). Returns NULL with errno set on
 * failure. */
DIR *directory_take(int take_fd);

/* Returns the next entry except "." and "..", or NULL at the end and for a NULL `dir`. A read error also gives NULL and sets
 * errno, which the end of the directory does not change. */
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
