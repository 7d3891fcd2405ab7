/*
 * Skips the holes of sparse files. A hole of a terabyte costs its creator nothing, but reading its zeroes takes a quarter of
 * an hour.
 */
#pragma once

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

/* Where to continue reading after `at` in pieces of this size: the first piece that may have data, or the end. */
static inline off_t sparse_skip_hole(int fd, off_t at, off_t size, off_t piece)
{
    off_t data = lseek(fd, at, SEEK_DATA);

    if (data < 0)
        return errno == ENXIO ? size : at;
    return data - data % piece > at ? data - data % piece : at;
}
