/*
 * Where a file of the delta has room on disk already: what is written there makes it occupy no more.
 *
 * Ranges are taken in whole blocks, as the quota counts.
 */
#pragma once

#include <stdint.h>

#define EXTENT_BLOCK 4096ULL

/* How many bytes of the range are holes. Space that was reserved and never written looks like one. All of the range where that cannot
 * be told. */
uint64_t extent_holes(int fd, uint64_t offset, uint64_t size);

/* The same with what is reserved told apart, where the file system can do that; costs more. */
uint64_t extent_missing(int fd, uint64_t offset, uint64_t size);
