/*
 * Finds where a file of the delta has disk space already: writing there takes no more of the quota. Works in whole blocks, as
 * the quota counts.
 */
#pragma once

#include <stdint.h>

#define EXTENT_BLOCK 4096ULL

/* The bytes of the range that are holes. Reserved space that was never written counts as holes. Without information, the whole
 * range. */
uint64_t extent_holes(int fd, uint64_t offset, uint64_t size);

/* The same without reserved space, where the file system reports it; costs more. */
uint64_t extent_missing(int fd, uint64_t offset, uint64_t size);
