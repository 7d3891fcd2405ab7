#include "fence/base_stamp.h"

#include "base/clock.h"
#include "fence/inode.h"

/* Times are as fine as the base's clock: two writes within a tick, or within what a remote file system rounds to, look
 * alike. */
#define SETTLED_NS (2 * CLOCK_NS_PER_SEC)
#define SETTLED 1U

static uint32_t stamp_hash(const uint64_t *words, size_t count)
{
    uint32_t hash = (uint32_t) inode_hash(count, (const char *) words, count * sizeof(*words));

    return hash ? hash : 1;
}

static uint32_t stamp_file(const struct stat *st)
{
    return stamp_hash((uint64_t[]){ st->st_dev, st->st_ino, st->st_mode & S_IFMT }, 3);
}

/* The lowest bit is reserved for SETTLED. */
static uint32_t stamp_content(const struct stat *st)
{
    return stamp_hash((uint64_t[]){ (uint64_t) st->st_mtim.tv_sec, (uint64_t) st->st_mtim.tv_nsec,
                                    (uint64_t) st->st_ctim.tv_sec, (uint64_t) st->st_ctim.tv_nsec, (uint64_t) st->st_size },
                      5) &
           ~SETTLED;
}

uint64_t base_stamp_of(const struct stat *st)
{
    int64_t changed_ns = clock_ns_of_timespec(st->st_ctim);
    bool is_settled = changed_ns < clock_wall_ns() - SETTLED_NS;

    return (uint64_t) stamp_file(st) << 32 | stamp_content(st) | (is_settled ? SETTLED : 0);
}

unsigned base_stamp_differs(uint64_t before, const struct stat *now)
{
    if (!before)
        return BASE_STAMP_OTHER_CONTENT | BASE_STAMP_UNSETTLED;
    return ((uint32_t) (before >> 32) != stamp_file(now) ? BASE_STAMP_OTHER_FILE : 0) |
           (((uint32_t) before & ~SETTLED) != stamp_content(now) ? BASE_STAMP_OTHER_CONTENT : 0) |
           (before & SETTLED ? 0 : BASE_STAMP_UNSETTLED);
}

bool base_stamp_is_settled(uint64_t base_stamp)
{
    return base_stamp & SETTLED;
}
