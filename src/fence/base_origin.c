#include "fence/base_origin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/inode.h"
#include "fence/map_log.h"

#define NAME "origins"
#define SEED 7
#define NOTHING UINT64_MAX /* as the size: the path has no origin any more */

/*
 * A log of lines of fixed size; later ones override earlier ones. The key is a hash of the path: a collision could at worst
 * turn a change of somebody else's into a conflict, or hide one, and both versions are kept in any case. As with inode numbers,
 * nothing waits for the disk.
 */
enum { KEY, INO, SIZE, MTIME, WORDS };

struct base_origins {
    pthread_mutex_t lock; /* guards the rest */
    struct map_log lines;
};

static uint64_t origin_key(const char *path)
{
    return inode_hash(SEED, path, strlen(path)) | 1;
}

static void base_origins_append(struct base_origins *o, const uint64_t *line)
{
    map_log_put(&o->lines, line);
    /* Without any valid line the log starts again. */
    if (o->lines.value_count == 0 && ftruncate(o->lines.fd, 0) == 0)
        o->lines.count = 0;
    else
        map_log_append(&o->lines, line);
}

int base_origins_open(struct fence *f, struct base_origins **ret)
{
    struct map_log lines = { .words = WORDS, .void_at = SIZE, .void_word = NOTHING };
    int r = map_log_open(&lines, f->meta_fd, NAME);
    struct base_origins *o;

    if (r < 0)
        return r;
    o = xnew(struct base_origins);
    o->lines = lines;
    pthread_mutex_init(&o->lock, NULL);
    r = map_log_read(&o->lines);
    if (r < 0)
        base_origins_close(o);
    else
        *ret = o;
    return r;
}

void base_origins_close(struct base_origins *o)
{
    if (!o)
        return;
    map_log_close(&o->lines);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

void base_origin_note(struct fence *f, const struct inode *dir, const char *name, const struct stat *base)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    int64_t mtime_ns = clock_ns_of_timespec(base->st_mtim);
    struct base_origin known;

    if (!f->base_origins)
        return;
    tree_path_of(f, dir, name, &path);
    if (base_origin_find(f, path.data, &known))
        return;
    autolock(&f->base_origins->lock);
    base_origins_append(f->base_origins, (uint64_t[WORDS]){ origin_key(path.data), base->st_ino, (uint64_t) base->st_size,
                                                            (uint64_t) mtime_ns });
}

bool base_origin_find(struct fence *f, const char *path, struct base_origin *ret)
{
    struct base_origins *o = f->base_origins;
    const uint64_t *line;

    if (!o)
        return false;
    autolock(&o->lock);
    line = map_log_find(&o->lines, origin_key(path));
    if (line)
        *ret = (struct base_origin){ .ino = line[INO], .size_bytes = line[SIZE], .mtime_ns = (int64_t) line[MTIME] };
    return line;
}

void base_origin_forget(struct fence *f, const char *path)
{
    struct base_origin known;

    if (!base_origin_find(f, path, &known))
        return;
    autolock(&f->base_origins->lock);
    base_origins_append(f->base_origins, (uint64_t[WORDS]){ origin_key(path), 0, NOTHING, 0 });
}
