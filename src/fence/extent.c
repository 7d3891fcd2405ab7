#include "fence/extent.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define EXTENTS_AT_ONCE 32

static uint64_t block_of(uint64_t offset)
{
    return offset & ~(EXTENT_BLOCK - 1);
}

static uint64_t block_after(uint64_t offset)
{
    return block_of(offset + EXTENT_BLOCK - 1);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* lseek(2) reports a hole at the end of a file, but the rest of its last block is allocated. */
uint64_t extent_holes(int fd, uint64_t offset, uint64_t size)
{
    uint64_t at = block_of(offset), end = block_after(offset + size), holes = 0;

    while (at < end) {
        off_t data = lseek(fd, (off_t) at, SEEK_DATA);
        if (data < 0)
            return holes + end - at;
        uint64_t begin = min_u64(block_of((uint64_t) data), end);
        if (begin > at)
            holes += begin - at;
        if (begin >= end)
            break;
        off_t hole = lseek(fd, data, SEEK_HOLE);
        if (hole <= data)
            return holes + end - begin;
        at = block_after((uint64_t) hole);
    }
    return holes;
}

/* The extents follow the header, where its last member begins. */
union mapping {
    struct fiemap head;
    char bytes[sizeof(struct fiemap) + EXTENTS_AT_ONCE * sizeof(struct fiemap_extent)];
};

/* Continues from `*at`. Returns true at the last extent. */
static bool pass_extents(const union mapping *map, uint64_t *at, uint64_t end, uint64_t *missing)
{
    for (uint32_t i = 0; i < map->head.fm_mapped_extents && *at < end; i++) {
        const struct fiemap_extent *e = &map->head.fm_extents[i];
        uint64_t begin = min_u64(e->fe_logical, end);
        if (begin > *at)
            *missing += begin - *at;
        if (block_after(e->fe_logical + e->fe_length) > *at)
            *at = block_after(e->fe_logical + e->fe_length);
        if (e->fe_flags & FIEMAP_EXTENT_LAST)
            return true;
    }
    return map->head.fm_mapped_extents < EXTENTS_AT_ONCE;
}

uint64_t extent_missing(int fd, uint64_t offset, uint64_t size)
{
    uint64_t at = block_of(offset), end = block_after(offset + size), missing = 0;
    bool is_last = false;

    while (at < end && !is_last) {
        union mapping map = { .bytes = { 0 } };
        map.head.fm_start = at;
        map.head.fm_length = end - at;
        map.head.fm_extent_count = EXTENTS_AT_ONCE;
        if (ioctl(fd, FS_IOC_FIEMAP, &map) < 0)
            return extent_holes(fd, offset, size);
        is_last = pass_extents(&map, &at, end, &missing);
    }
    return at < end ? missing + end - at : missing;
}
