#include "fence/quota.h"

#include <errno.h>

#include "fence/session.h"

#define SHOWN_BYTES (1ULL << 40)
#define TRIFLE (128ULL << 10)
#define SHOWN_INODES (1ULL << 26)

void quota_init(struct quota *quota, uint64_t bytes_max, uint64_t inodes_max)
{
    pthread_mutex_init(&quota->lock, NULL);
    quota->bytes_max = bytes_max;
    quota->inodes_max = inodes_max;
}

void quota_done(struct quota *quota)
{
    pthread_mutex_destroy(&quota->lock);
}

static uint64_t add_clamped(uint64_t value, int64_t change)
{
    if (change < 0 && value < (uint64_t) -change)
        return 0;
    return value + (uint64_t) change;
}

void quota_add(struct quota *quota, int64_t bytes, int64_t inodes)
{
    autolock(&quota->lock);
    quota->bytes = add_clamped(quota->bytes, bytes);
    quota->inodes = add_clamped(quota->inodes, inodes);
}

static bool is_too_much(uint64_t used, uint64_t more, uint64_t max)
{
    return max && more && (used >= max || more > max - used);
}

int quota_reserve(struct quota *quota, uint64_t bytes, uint64_t inodes)
{
    autolock(&quota->lock);
    if (is_too_much(quota->bytes, bytes, quota->bytes_max) || is_too_much(quota->inodes, inodes, quota->inodes_max))
        return -ENOSPC;
    quota->bytes += bytes;
    quota->inodes += inodes;
    return 0;
}

void quota_release(struct quota *quota, uint64_t bytes, uint64_t inodes)
{
    quota_add(quota, -(int64_t) bytes, -(int64_t) inodes);
}

uint64_t quota_bytes_of(const struct stat *st)
{
    uint64_t stored = (uint64_t) st->st_blocks * 512, size = ((uint64_t) st->st_size + 4095) & ~4095ULL;

    if (!S_ISREG(st->st_mode))
        return 0;
    return stored > size && stored <= size + TRIFLE ? size : stored;
}

void quota_add_growth(struct fence *f, struct inode *inode, int fd, const struct stat *before, uint64_t taken)
{
    struct stat after;
    int64_t grown = fstat(fd, &after) == 0 ? (int64_t) (quota_bytes_of(&after) - quota_bytes_of(before)) : 0;

    quota_add(&f->quota, grown - (int64_t) taken, 0);
    if (inode_has(inode, INODE_DEAD))
        quota_add_dead(&f->quota, grown);
}

void quota_add_dead(struct quota *quota, int64_t bytes)
{
    autolock(&quota->lock);
    quota->dead_bytes = add_clamped(quota->dead_bytes, bytes);
}

bool quota_reclaim_dead(struct fence *f)
{
    pthread_mutex_lock(&f->quota.lock);
    bool has_dead = f->quota.dead_bytes > 0;
    pthread_mutex_unlock(&f->quota.lock);
    if (has_dead)
        session_await_forgets(f->session);
    return has_dead;
}

bool quota_limits_bytes(const struct quota *quota)
{
    return quota->bytes_max > 0;
}

void quota_statfs(struct quota *quota, uint64_t block_size, uint64_t ret[4])
{
    autolock(&quota->lock);
    uint64_t bytes_max = quota->bytes_max ? quota->bytes_max : SHOWN_BYTES;
    uint64_t inodes_max = quota->inodes_max ? quota->inodes_max : SHOWN_INODES;

    ret[0] = bytes_max / block_size;
    uint64_t shown = quota->bytes > quota->dead_bytes ? quota->bytes - quota->dead_bytes : 0;
    ret[1] = shown < bytes_max ? (bytes_max - shown) / block_size : 0;
    ret[2] = inodes_max;
    ret[3] = quota->inodes < inodes_max ? inodes_max - quota->inodes : 0;
}
