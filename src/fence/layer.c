#include "fence/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "fence/casefold.h"
#include "fence/handle.h"
#include "fence/hidden_link.h"
#include "fence/inode.h"

static size_t stripe_of(const struct inode *dir)
{
    return (dir->ino ^ dir->ino >> 32) % STRIPES;
}

void dir_lock(struct fence *f, const struct inode *dir)
{
    pthread_mutex_lock(&f->dir_stripes[stripe_of(dir)]);
}

void dir_unlock(struct fence *f, const struct inode *dir)
{
    pthread_mutex_unlock(&f->dir_stripes[stripe_of(dir)]);
}

void dir_lock_two(struct fence *f, const struct inode *a, const struct inode *b)
{
    size_t x = stripe_of(a), y = stripe_of(b);

    pthread_mutex_lock(&f->dir_stripes[x < y ? x : y]);
    if (x != y)
        pthread_mutex_lock(&f->dir_stripes[x < y ? y : x]);
}

void dir_unlock_two(struct fence *f, const struct inode *a, const struct inode *b)
{
    dir_unlock(f, a);
    if (stripe_of(a) != stripe_of(b))
        dir_unlock(f, b);
}

/* The name may have become an alias since it was looked up, so it is checked once the file is open. */
static int layer_keep_if(int fd, int r)
{
    if (r == 0)
        return fd;
    close(fd);
    return r;
}

/* A name of a live base may lead to something else since we looked: what is opened must be a regular file, and opening must not
 * block (O_NONBLOCK) nor make a terminal ours (O_NOCTTY). */
static int open_base_file(struct fence *f, int dirfd, const char *name)
{
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = openat(dirfd, name, flags | O_NOATIME);
    struct stat st;

    if (fd < 0 && errno == EPERM)
        fd = openat(dirfd, name, flags);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return -ESTALE;
    }
    return layer_keep_if(fd, hidden_link_check(f, &st));
}

static int open_dead_base_file(struct fence *f, struct inode *inode)
{
    const char *name;
    autofd int parent = -1;
    int r = path_open_parent_beneath(f->base_fd, inode->last_path, &parent, &name);

    if (r == 0)
        r = open_base_file(f, parent, name);
    return r < 0 ? r : layer_keep_if(r, casefold_check_path(f->base_fd, inode->last_path));
}

static int layer_open_at(struct fence *f, int dirfd, const struct inode *inode, enum layer_kind layer, const char *name)
{
    int fd;

    if (!inode_is_dir(inode) && layer == LAYER_BASE)
        return open_base_file(f, dirfd, name);
    if (inode_is_dir(inode))
        fd = openat(dirfd, name, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | (layer == LAYER_BASE ? O_PATH : O_RDONLY));
    else
        fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void layer_orphan_name(const struct inode *inode, char out[32])
{
    snprintf(out, 32, "orphan-%016" PRIx64, inode->node);
}

/* A name in the delta may be moved before we open it: checks again under the directory's lock. */
static int open_in_delta(struct fence *f, struct inode *inode)
{
    for (;;) {
        struct inode_location where, still;
        struct handle *parent = NULL;
        bool moved;
        int fd, r = inode_locate(f, inode, &where);

        if (r < 0)
            return r;
        r = handle_get(f, where.parent, LAYER_DELTA, &parent);
        if (r < 0) {
            inode_location_done(f, &where);
            return r;
        }
        dir_lock(f, where.parent);
        r = inode_locate(f, inode, &still);
        moved = r < 0 || still.parent != where.parent || strcmp(still.name, where.name) != 0;
        fd = moved ? r : layer_open_at(f, parent->fd, inode, LAYER_DELTA, where.name);
        dir_unlock(f, where.parent);
        if (r >= 0)
            inode_location_done(f, &still);
        handle_put(f, parent);
        inode_location_done(f, &where);
        if (!moved || r < 0)
            return fd;
    }
}

static int open_in_base(struct fence *f, struct inode *inode)
{
    struct inode_location where;
    struct handle *parent;
    int r;

    if (inode_has(inode, INODE_DEAD))
        return inode_is_dir(inode) ? -ENOENT : open_dead_base_file(f, inode);
    r = inode_locate(f, inode, &where);
    if (r < 0)
        return r;
    r = handle_get(f, where.parent, LAYER_BASE, &parent);
    if (r >= 0) {
        r = layer_open_at(f, parent->fd, inode, LAYER_BASE, where.name);
        if (r >= 0)
            r = layer_keep_if(r, casefold_check(f, parent, where.name));
        handle_put(f, parent);
    }
    inode_location_done(f, &where);
    return r;
}

int layer_open(struct fence *f, struct inode *inode, enum layer_kind layer)
{
    char name[32];

    if (layer == LAYER_DELTA && inode_has(inode, INODE_ORPHAN)) {
        layer_orphan_name(inode, name);
        return layer_open_at(f, f->work_fd, inode, LAYER_DELTA, name);
    }
    if (inode == f->root) {
        int fd = fcntl(layer == LAYER_BASE ? f->base_fd : f->data_fd, F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? -errno : fd;
    }
    return layer == LAYER_BASE ? open_in_base(f, inode) : open_in_delta(f, inode);
}

int layer_stat(struct fence *f, struct inode *dir, enum layer_kind layer, const char *name, struct stat *ret_st)
{
    struct handle *h;
    int r = handle_get(f, dir, layer, &h);

    if (r < 0)
        return r;
    r = fstatat(h->fd, name, ret_st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    if (r == 0 && layer == LAYER_BASE)
        r = casefold_check(f, h, name);
    if (r == 0 && layer == LAYER_BASE)
        r = hidden_link_check(f, ret_st);
    handle_put(f, h);
    return r;
}

int layer_base_has(struct fence *f, struct inode *dir, const char *name, struct stat *ret_st)
{
    int r;

    if (!inode_has(dir, INODE_BASE))
        return 0;
    r = layer_stat(f, dir, LAYER_BASE, name, ret_st);
    if (r == -ENOENT || r == -ENOTDIR)
        return 0;
    return r < 0 ? r : 1;
}

bool layer_stat_base(struct fence *f, const char *path, struct stat *ret_st)
{
    autofd int fd = path_open_beneath(f->base_fd, path, O_PATH, 0);

    return fd >= 0 && fstat(fd, ret_st) == 0 && casefold_check_path(f->base_fd, path) == 0;
}

static int layer_stat_by_name(struct fence *f, struct inode *inode, enum layer_kind layer, struct stat *ret_st)
{
    struct inode_location where;
    int r = inode_locate(f, inode, &where);

    if (r < 0)
        return r;
    r = layer_stat(f, where.parent, layer, where.name, ret_st);
    inode_location_done(f, &where);
    return r;
}

int layer_stat_inode(struct fence *f, struct inode *inode, struct stat *ret_st)
{
    enum layer_kind layer = inode_has(inode, INODE_UP) ? LAYER_DELTA : LAYER_BASE;
    struct handle *h = S_ISREG(inode->mode) ? handle_get_cached(f, inode, layer) : NULL;
    int r;

    if (!h && S_ISREG(inode->mode) && inode_has(inode, INODE_DEAD)) {
        r = handle_get(f, inode, layer, &h);
        if (r < 0)
            return r;
    }
    if (!h)
        return layer_stat_by_name(f, inode, layer, ret_st);
    r = fstat(h->fd, ret_st) < 0 ? -errno : 0;
    handle_put(f, h);
    return r;
}

int layer_open_listing(struct fence *f, struct inode *dir, enum layer_kind layer)
{
    struct handle *h;
    int r = handle_get(f, dir, layer, &h);

    if (r < 0)
        return r;
    r = openat(h->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r < 0)
        r = -errno;
    handle_put(f, h);
    return r;
}
