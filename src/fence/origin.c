#include "fence/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/inode.h"

#define NAME "origins"
#define SEED 7
#define NOTHING UINT64_MAX /* as a size: what was said of the path before is void */

/*
 * A log of fixed lines; later ones count. A path is told by its hash: what a clash could do is to call a change of somebody else's
 * a conflict, or not, and both versions are kept in any case. As with numbers, nobody waits for a disk.
 */
struct line {
    uint64_t key; /* 0: never written */
    struct origin origin;
};

struct origins {
    int fd; /* owned */
    pthread_mutex_t lock;
    struct line *lines; /* owned; open addressing by key; a void one keeps its place */
    size_t cap, used, count;
    off_t end;
};

static uint64_t key_of(const char *path)
{
    return inode_hash(SEED, path, strlen(path)) | 1;
}

static struct line *slot_of(struct line *lines, size_t cap, uint64_t key)
{
    size_t i = (key >> 1) & (cap - 1);

    while (lines[i].key && lines[i].key != key)
        i = (i + 1) & (cap - 1);
    return &lines[i];
}

static void grow(struct origins *o)
{
    struct line *old = o->lines;
    size_t old_cap = o->cap;

    o->cap = o->count * 4 < 64 ? 64 : old_cap * 2;
    o->lines = xalloc(o->cap * sizeof(*o->lines));
    o->used = 0;
    for (size_t i = 0; i < old_cap; i++) {
        if (!old[i].key || old[i].origin.size_bytes == NOTHING)
            continue;
        *slot_of(o->lines, o->cap, old[i].key) = old[i];
        o->used++;
    }
    free(old);
}

static void put(struct origins *o, const struct line *line)
{
    struct line *slot;
    bool had, has = line->origin.size_bytes != NOTHING;

    if (o->used * 2 >= o->cap)
        grow(o);
    slot = slot_of(o->lines, o->cap, line->key);
    had = slot->key && slot->origin.size_bytes != NOTHING;
    o->used += !slot->key;
    *slot = *line;
    o->count += (size_t) has - (size_t) had;
}

static void append(struct origins *o, const struct line *line)
{
    put(o, line);
    /* When nothing holds any more the log begins anew. */
    if (o->count == 0 && ftruncate(o->fd, 0) == 0) {
        o->end = 0;
        return;
    }
    if (pwrite(o->fd, line, sizeof(*line), o->end) == (ssize_t) sizeof(*line))
        o->end += (off_t) sizeof(*line);
}

int origins_open(struct fence *f, struct origins **ret)
{
    int fd = openat(f->meta_fd, NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct origins *o;
    struct line some[256];
    ssize_t got;

    if (fd < 0)
        return -errno;
    o = xnew(struct origins);
    o->fd = fd;
    pthread_mutex_init(&o->lock, NULL);
    while ((got = pread(fd, some, sizeof(some), o->end)) >= (ssize_t) sizeof(*some)) {
        size_t count = (size_t) got / sizeof(*some);
        for (size_t i = 0; i < count; i++) {
            if (some[i].key)
                put(o, &some[i]);
        }
        o->end += (off_t) (count * sizeof(*some));
    }
    *ret = o;
    return 0;
}

void origins_close(struct origins *o)
{
    if (!o)
        return;
    close(o->fd);
    pthread_mutex_destroy(&o->lock);
    free(o->lines);
    free(o);
}

void origin_note(struct fence *f, const struct inode *dir, const char *name, const struct stat *base)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    struct line line = { .origin = { .ino = base->st_ino, .size_bytes = (uint64_t) base->st_size } };
    struct origin known;

    if (!f->origins)
        return;
    tree_path_of(f, dir, name, &path);
    if (origin_find(f, path.data, &known))
        return;
    line.key = key_of(path.data);
    line.origin.mtime_ns = (int64_t) base->st_mtim.tv_sec * CLOCK_NS_PER_SEC + base->st_mtim.tv_nsec;
    autolock(&f->origins->lock);
    append(f->origins, &line);
}

bool origin_find(struct fence *f, const char *path, struct origin *ret)
{
    struct origins *o = f->origins;
    const struct line *line;

    if (!o)
        return false;
    autolock(&o->lock);
    line = o->cap ? slot_of(o->lines, o->cap, key_of(path)) : NULL;
    if (!line || !line->key || line->origin.size_bytes == NOTHING)
        return false;
    *ret = line->origin;
    return true;
}

void origin_forget(struct fence *f, const char *path)
{
    struct line line = { .key = key_of(path), .origin = { .size_bytes = NOTHING } };
    struct origin known;

    if (!origin_find(f, path, &known))
        return;
    autolock(&f->origins->lock);
    append(f->origins, &line);
}
