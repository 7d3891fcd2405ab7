#include "fence/ino_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/map_log.h"

#define NAME "numbers"
#define INO_COUNTER 1 /* as a key: how many numbers were made before this file was written */
#define VOID_MAX 1024
#define LONG_FROM                                                                                                              \
    262144 /* pairs, 4 MiB: a log that has grown to this, and to GROWTH times what held last time, is written anew */
#define GROWTH 3

/*
 * A log of pairs. A name is told by the number that would follow from it, which is made of its directory's number and its text: so
 * nothing has to be written about what is below a directory that moves. Later pairs count.
 *
 * Nobody waits for a disk here, but for the one who writes a long log anew. A pair is written after its change and before the answer to
 * it, so killing the process loses none that anybody saw. Where one is missing (a crash between the two, a full disk) the number follows
 * from the path, unless another file has that: it took it along when it was renamed away from there. Then it is a new one.
 *
 * The counter behind new numbers goes on from mount to mount: each new number is a pair, so the pairs bound it.
 */
enum { KEY, INO, WORDS }; /* of a pair; INO is 0 where there is nothing */

struct ino_map {
    pthread_mutex_t lock; /* guards the rest */
    uint64_t ino_counter; /* how many numbers were made before the log was written */
    uint64_t long_from;   /* with how many pairs it is written anew, at the least; */
    uint64_t long_at;     /* and next. Not while the tree is loaded: what was read is needed until then */
    struct map_log pairs; /* its table, and what follows, is for loading, and with f->syncs_out stays */
    struct map_log taken; /* a table of the numbers in it */
    bool stays;
    struct buf kept; /* pairs that hold */
};

/* One that was given up stays for a while: who would have it by its name gets another, which does no harm. */
static void find_taken(struct ino_map *n)
{
    const uint64_t *pair;

    map_log_clear_table(&n->taken);
    for (size_t slot = 0; (pair = map_log_next(&n->pairs, &slot));)
        map_log_put(&n->taken, &pair[INO]);
}

static void ino_map_put(struct ino_map *n, const uint64_t *pair)
{
    map_log_put(&n->pairs, pair);
    if (!pair[INO])
        return;
    if (n->taken.cap && n->taken.used * 2 >= n->taken.cap)
        find_taken(n);
    else
        map_log_put(&n->taken, &pair[INO]);
}

/* The line of BORN is no pair of a name: it leaves the table. */
static int ino_map_read(struct ino_map *n)
{
    int r = map_log_read(&n->pairs);
    const uint64_t *ino_counter = map_log_find(&n->pairs, INO_COUNTER);

    if (r < 0)
        return r;
    n->ino_counter = ino_counter ? ino_counter[INO] : 0;
    map_log_put(&n->pairs, (uint64_t[WORDS]){ INO_COUNTER, 0 });
    return 0;
}

int ino_map_open(struct fence *f, struct ino_map **ret_ino_map)
{
    struct map_log pairs = { .words = WORDS, .void_at = INO, .void_word = 0 };
    int r = map_log_open(&pairs, f->meta_fd, NAME);
    struct ino_map *n;

    if (r < 0)
        return r;
    n = xnew(struct ino_map);
    n->pairs = pairs;
    n->taken = (struct map_log){ .words = 1 };
    n->long_from = LONG_FROM;
    n->long_at = UINT64_MAX;
    pthread_mutex_init(&n->lock, NULL);
    r = ino_map_read(n);
    if (r < 0) {
        ino_map_close(n);
        return r;
    }
    f->ino_counter = n->ino_counter + n->pairs.count;
    find_taken(n);
    *ret_ino_map = n;
    return 0;
}

static void ino_map_clear_tables(struct ino_map *n)
{
    map_log_clear_table(&n->pairs);
    map_log_clear_table(&n->taken);
    buf_done(&n->kept);
}

void ino_map_close(struct ino_map *n)
{
    if (!n)
        return;
    ino_map_clear_tables(n);
    map_log_close(&n->pairs);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

uint64_t ino_map_find(struct fence *f, const struct inode *dir, const char *name, bool is_linked)
{
    struct ino_map *n = f->ino_map;
    uint64_t usual = inode_number_of(dir->ino, name, strlen(name));
    const uint64_t *known = map_log_find(&n->pairs, usual);
    uint64_t pair[WORDS] = { usual, usual };

    if (known)
        pair[INO] = known[INO];
    else if (!is_linked && map_log_find(&n->taken, usual))
        pair[INO] = inode_number_new(f);
    if (pair[INO] != usual) {
        buf_add(&n->kept, pair, sizeof(pair));
        if (!known)
            ino_map_set(f, dir, name, pair[INO]);
    }
    return pair[INO];
}

/* NULL: of what the table holds. */
static int ino_map_rewrite(struct ino_map *n, uint64_t ino_counter, const struct buf *kept)
{
    int r = map_log_replace(&n->pairs, (uint64_t[]){ INO_COUNTER, ino_counter }, kept);

    if (r == 0)
        n->ino_counter = ino_counter;
    return r;
}

/* Where changes are handed over all stays: what is not in the delta is in the base by now, or was, and nobody can tell from a pair. */
int ino_map_end_load(struct fence *f)
{
    struct ino_map *n = f->ino_map;
    size_t kept = f->syncs_out ? n->pairs.value_count : n->kept.len / (WORDS * sizeof(uint64_t));
    int r = n->pairs.count > kept * 2 + VOID_MAX ? ino_map_rewrite(n, f->ino_counter, f->syncs_out ? NULL : &n->kept) : 0;

    n->stays = f->syncs_out;
    if (n->stays)
        find_taken(n);
    else
        ino_map_clear_tables(n);
    buf_done(&n->kept);
    n->long_at = n->long_from;
    return r;
}

/* A log that is long by now, while the mount is in use: of each name the last word. Called with the lock; where it cannot be done it is
 * tried again when the log has grown by as much. */
static void ino_map_compact(struct ino_map *n)
{
    uint64_t count = n->pairs.count;

    if ((n->stays || ino_map_read(n) == 0) && n->pairs.value_count < count / 2)
        ino_map_rewrite(n, n->ino_counter + count, NULL);
    if (!n->stays)
        ino_map_clear_tables(n);
    count = n->pairs.count;
    n->long_at = count * GROWTH > n->long_from ? count * GROWTH : n->long_from;
}

/* Places are given out in the order in which changes of one name are made; a pair that could not be written stays 0, and counts as a number
 * that was made. */
static void ino_map_append(struct fence *f, uint64_t key, uint64_t ino)
{
    const uint64_t pair[WORDS] = { key, ino };
    struct ino_map *n = f->ino_map;

    autolock(&n->lock);
    if (f->syncs_out)
        ino_map_put(n, pair);
    if (!map_log_append(&n->pairs, pair))
        n->pairs.count++;
    else if (n->pairs.count >= n->long_at)
        ino_map_compact(n);
}

void ino_map_set_rewrite_min(struct fence *f, uint64_t pairs)
{
    f->ino_map->long_from = f->ino_map->long_at = pairs;
}

void ino_map_set(struct fence *f, const struct inode *dir, const char *name, uint64_t ino)
{
    ino_map_append(f, inode_number_of(dir->ino, name, strlen(name)), ino);
}

/* Of a name that has none, 0. */
static uint64_t value_of(struct fence *f, uint64_t name, bool *ret_is_taken)
{
    struct ino_map *n = f->ino_map;
    const uint64_t *pair;

    *ret_is_taken = false;
    if (!f->syncs_out)
        return 0;
    autolock(&n->lock);
    *ret_is_taken = map_log_find(&n->taken, name);
    pair = map_log_find(&n->pairs, name);
    return pair ? pair[INO] : 0;
}

bool ino_map_keeps(struct fence *f, const struct inode *dir, const char *name)
{
    bool is_taken;

    return value_of(f, inode_number_of(dir->ino, name, strlen(name)), &is_taken) != 0;
}

uint64_t ino_map_base_ino(struct fence *f, const struct inode *dir, const char *name, bool for_good)
{
    uint64_t usual = inode_number_of(dir->ino, name, strlen(name));
    bool is_taken;
    uint64_t ino = value_of(f, usual, &is_taken);

    if (ino || !is_taken || !for_good)
        return ino ? ino : usual;
    tree_lock(f);
    ino = inode_number_new(f);
    tree_unlock(f);
    ino_map_append(f, usual, ino);
    return ino;
}

/* In the same log, under what would be the number of a name that no directory can hold. */
static uint64_t time_key(uint64_t dir_ino)
{
    return inode_number_of(dir_ino, "/", 1);
}

void ino_map_keep_time(struct fence *f, uint64_t dir_ino, int64_t mtime_ns)
{
    if (mtime_ns > 0)
        ino_map_append(f, time_key(dir_ino), (uint64_t) mtime_ns);
}

int64_t ino_map_time_of(struct fence *f, uint64_t dir_ino)
{
    bool is_taken;

    return (int64_t) value_of(f, time_key(dir_ino), &is_taken);
}
