#include "fence/casefold.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/directory.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/base_stamp.h"
#include "fence/handle.h"

/* How long a listing is trusted if the times of the directory do not change: some file systems do not update them. */
#define KEPT_NS CLOCK_NS_PER_SEC

/* ---- which directories ---- */

/* The part of XFS's geometry (struct xfs_fsop_geom_v1) that shows whether it was made with `-n version=ci`. */
struct xfs_geometry {
    uint32_t sizes[8];
    uint64_t blocks[4];
    uint8_t uuid[16];
    uint32_t stripe[2];
    int32_t version;
    uint32_t flags;
    uint32_t sectors[3];
};

#define XFS_GEOMETRY _IOR('X', 100, struct xfs_geometry)
#define XFS_FOLDS_ASCII (1U << 12)

static bool folds_xfs(int fd)
{
    struct xfs_geometry geometry = { 0 };

    return ioctl(fd, XFS_GEOMETRY, &geometry) < 0 || (geometry.flags & XFS_FOLDS_ASCII);
}

/* A directory with the flag folds case and normalises; it gets the flag while it is empty. A tmpfs that knows no flags (before
 * 6.0) has no such directories. */
static bool folds_flagged(int fd, bool is_tmpfs)
{
    unsigned flags = 0;

    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
        return !(is_tmpfs && errno == ENOTTY);
    return flags & FS_CASEFOLD_FL;
}

/* Returns 1, 0, or -errno if it cannot be determined now. Only file systems that certainly do not fold count as such: FUSE and
 * network file systems do as another system does, overlayfs as its layers do, FAT, NTFS, HFS+ and ZFS as they were made or
 * mounted, and others are unknown. The descriptor is O_PATH, which takes no ioctl(). */
static int dir_may_fold(int dirfd)
{
    autofd int fd = -1;
    struct statfs st;

    if (fstatfs(dirfd, &st) < 0)
        return 1;
    switch ((uint32_t) st.f_type) {
    case BTRFS_SUPER_MAGIC:
    case RAMFS_MAGIC:
    case SQUASHFS_MAGIC:
    case EROFS_SUPER_MAGIC_V1:
        return 0;
    case EXT4_SUPER_MAGIC: /* ext2 and ext3 have the same */
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case XFS_SUPER_MAGIC:
        break;
    default:
        return 1;
    }
    fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) /* for any other reason the directory is not trusted */
        return err_errno_is_exhaustion(-errno) ? -errno : 1;
    return (uint32_t) st.f_type == XFS_SUPER_MAGIC ? folds_xfs(fd) : folds_flagged(fd, st.f_type == TMPFS_MAGIC);
}

/* ---- which names ---- */

/* The names of a directory as last listed. They are stored in full and not as hashes: a process that can choose among the
 * spellings of a name could look for one with the hash of another name. */
struct dir_names {
    struct buf text;
    size_t *begins; /* owned; offset of each name in `text`, sorted */
    size_t count;
    uint64_t base_stamp; /* of the directory before it was listed */
    int64_t listed_ns;
};

struct casefold {
    pthread_mutex_t lock;   /* a leaf */
    struct dir_names names; /* guarded by lock */
};

/* Represents all directories in which names are compared as bytes. */
static struct casefold exact;

static int compare_listed(const void *a, const void *b, void *text)
{
    return strcmp((const char *) text + *(const size_t *) a, (const char *) text + *(const size_t *) b);
}

static bool dir_names_have(const struct dir_names *names, const char *name)
{
    size_t low = 0, high = names->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(names->text.data + names->begins[middle], name);
        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static int dir_names_list(struct dir_names *names, int dirfd)
{
    autodirectory dir = directory_open(dirfd);
    size_t cap = 0;

    if (!dir)
        return err_errno_is_exhaustion(-errno) ? -errno : -ENOENT;

    for (const struct dirent *d; (d = directory_next(dir));) {
        vec_room(&names->begins, &cap, names->count);
        names->begins[names->count++] = names->text.len;
        buf_add(&names->text, d->d_name, strlen(d->d_name) + 1);
    }
    if (names->count > 0)
        qsort_r(names->begins, names->count, sizeof(*names->begins), compare_listed, names->text.data);
    return 0;
}

static void dir_names_done(struct dir_names *names)
{
    buf_done(&names->text);
    free(names->begins);
}

static bool casefold_has_listed(struct casefold *s, const char *name, const struct stat *st)
{
    autolock(&s->lock);
    return !base_stamp_differs(s->names.base_stamp, st) && clock_now_ns() - s->names.listed_ns < KEPT_NS &&
           dir_names_have(&s->names, name);
}

/* Lists again, because a name that was found but is not in the last listing is either new or an alias. `st` is from before the
 * listing, so a change meanwhile shows. */
static int casefold_list_again(struct casefold *s, int dirfd, const char *name, const struct stat *st)
{
    struct dir_names now = { .base_stamp = base_stamp_of(st), .listed_ns = clock_now_ns() }, old;
    int r = dir_names_list(&now, dirfd);

    if (r < 0)
        return r;
    r = dir_names_have(&now, name) ? 0 : -ENOENT;
    pthread_mutex_lock(&s->lock);
    old = s->names;
    s->names = now;
    pthread_mutex_unlock(&s->lock);
    dir_names_done(&old);
    return r;
}

static struct casefold *casefold_new(void)
{
    struct casefold *s = xnew(struct casefold);

    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void casefold_free(struct casefold *s)
{
    if (!s || s == &exact)
        return;
    pthread_mutex_destroy(&s->lock);
    dir_names_done(&s->names);
    free(s);
}

/* Two threads that decide at the same time agree, or one of them found that the directory may fold: that one counts. */
static int casefold_decide(struct handle *dir, struct casefold **ret_casefold)
{
    struct casefold *s, *before = NULL;
    int folds = dir_may_fold(dir->fd);

    if (folds < 0)
        return folds;
    s = folds ? casefold_new() : &exact;
    while (!atomic_compare_exchange_strong(&dir->casefold, &before, s)) {
        if (before == &exact && s != &exact)
            continue;
        if (before) {
            casefold_free(s);
            s = before;
            break;
        }
    }
    *ret_casefold = s;
    return 0;
}

static int casefold_check_name(struct handle *dir, const char *name)
{
    struct casefold *s = atomic_load(&dir->casefold);
    struct stat st;
    int r = s ? 0 : casefold_decide(dir, &s);

    if (r < 0 || s == &exact)
        return r;
    if (fstat(dir->fd, &st) < 0)
        return -errno;
    return casefold_has_listed(s, name, &st) ? 0 : casefold_list_again(s, dir->fd, name, &st);
}

int casefold_check(struct fence *f, struct handle *dir, const char *name)
{
    int r = casefold_check_name(dir, name);

    if (r == -EMFILE || r == -ENFILE) {
        handles_trim(f);
        r = casefold_check_name(dir, name);
    }
    return r;
}

int casefold_check_path(int dirfd, const char *path)
{
    autofd int at = -1;
    struct path_component c;

    for (const char *cursor = path; path_next_component(&cursor, path + strlen(path), &c);) {
        autofree char *name = xdupn(c.name, c.len);
        struct handle dir = { .fd = at < 0 ? dirfd : at };
        int r = path_component_is(&c, ".") ? 0 : casefold_check_name(&dir, name), next;
        casefold_free(dir.casefold);
        if (r < 0)
            return r;
        next = path_open_beneath(dir.fd, name, O_PATH, 0);
        if (next < 0)
            return next;
        cleanup_fd(&at);
        at = next;
    }
    return 0;
}

/* Only "compares bytes" is forgotten: a directory that lists its names notices new ones by itself. */
void casefold_recheck(struct fence *f, struct inode *dir)
{
    struct handle *h = handle_get_cached(f, dir, LAYER_BASE);
    struct casefold *is = &exact;

    if (h)
        atomic_compare_exchange_strong(&h->casefold, &is, NULL);
    handle_put(f, h);
}
