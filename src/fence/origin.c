#include "fence/origin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/inode.h"
#include "fence/ledger.h"

#define NAME "origins"
#define SEED 7
#define NOTHING UINT64_MAX /* as a size: what was said of the path before is void */

/*
 * A log of fixed lines; later ones count. A path is told by its hash: what a clash could do is to call a change of somebody else's
 * a conflict, or not, and both versions are kept in any case. As with numbers, nobody waits for a disk.
 */
enum { KEY, INO, SIZE, MTIME, WORDS };

struct origins {
    pthread_mutex_t lock; /* guards the rest */
    struct ledger lines;
};

static uint64_t key_of(const char *path)
{
    return inode_hash(SEED, path, strlen(path)) | 1;
}

static void append(struct origins *o, const uint64_t *line)
{
    ledger_put(&o->lines, line);
    /* When nothing holds any more the log begins anew. */
    if (o->lines.held == 0 && ftruncate(o->lines.fd, 0) == 0)
        o->lines.count = 0;
    else
        ledger_append(&o->lines, line);
}

int origins_open(struct fence *f, struct origins **ret)
{
    struct ledger lines = { .words = WORDS, .void_at = SIZE, .void_word = NOTHING };
    int r = ledger_open(&lines, f->meta_fd, NAME);
    struct origins *o;

    if (r < 0)
        return r;
    o = xnew(struct origins);
    o->lines = lines;
    pthread_mutex_init(&o->lock, NULL);
    r = ledger_read(&o->lines);
    if (r < 0)
        origins_close(o);
    else
        *ret = o;
    return r;
}

void origins_close(struct origins *o)
{
    if (!o)
        return;
    ledger_close(&o->lines);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

void origin_note(struct fence *f, const struct inode *dir, const char *name, const struct stat *base)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    int64_t mtime_ns = (int64_t) base->st_mtim.tv_sec * CLOCK_NS_PER_SEC + base->st_mtim.tv_nsec;
    struct origin known;

    if (!f->origins)
        return;
    tree_path_of(f, dir, name, &path);
    if (origin_find(f, path.data, &known))
        return;
    autolock(&f->origins->lock);
    append(f->origins, (uint64_t[WORDS]){ key_of(path.data), base->st_ino, (uint64_t) base->st_size, (uint64_t) mtime_ns });
}

bool origin_find(struct fence *f, const char *path, struct origin *ret)
{
    struct origins *o = f->origins;
    const uint64_t *line;

    if (!o)
        return false;
    autolock(&o->lock);
    line = ledger_find(&o->lines, key_of(path));
    if (line)
        *ret = (struct origin){ .ino = line[INO], .size_bytes = line[SIZE], .mtime_ns = (int64_t) line[MTIME] };
    return line;
}

void origin_forget(struct fence *f, const char *path)
{
    struct origin known;

    if (!origin_find(f, path, &known))
        return;
    autolock(&f->origins->lock);
    append(f->origins, (uint64_t[WORDS]){ key_of(path), 0, NOTHING, 0 });
}
