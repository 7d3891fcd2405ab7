#include "base/dir_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_LEN 36
#define OVERLAYFS_MAGIC 0x794c7630

static uint64_t boot;

static void read_boot(void)
{
    autofd int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
    char text[BOOT_ID_LEN];

    if (fd >= 0 && read(fd, text, sizeof(text)) == sizeof(text))
        boot = hash_add(HASH_START, text, sizeof(text)) | 1;
}

int dir_identity_read(int fd, struct dir_identity *ret)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct statx stx;
    struct statfs fs;
    struct stat st;

    pthread_once(&once, read_boot);
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return -errno;
    *ret = (struct dir_identity){ .dev = (uint64_t) st.st_dev, .ino = (uint64_t) st.st_ino, .boot = boot };
    /* overlayfs copies a directory up on its first change, which gives it another birth time. */
    if (fs.f_type != OVERLAYFS_MAGIC && statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) == 0 && (stx.stx_mask & STATX_BTIME))
        ret->birth_ns = stx.stx_btime.tv_sec * CLOCK_NS_PER_SEC + stx.stx_btime.tv_nsec;
    return 0;
}

bool dir_identity_is_same(const struct dir_identity *recorded, const struct dir_identity *now)
{
    bool is_anonymous = major((dev_t) recorded->dev) == 0 && major((dev_t) now->dev) == 0;

    if (recorded->ino != now->ino)
        return false;
    if (recorded->birth_ns && now->birth_ns)
        return recorded->birth_ns == now->birth_ns;
    return recorded->dev == now->dev || is_anonymous || !recorded->boot || recorded->boot != now->boot;
}
