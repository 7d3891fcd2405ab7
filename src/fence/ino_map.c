#include "fence/ino_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/map_log.h"

#define NAME "numbers"
#define INO_COUNTER 1 /* as the key: how many numbers had been made when this file was written */
#define VOID_MAX 1024
#define LONG_FROM                                                                                                              \
    262144 /* pairs, 4 MiB: a log that has grown to this, and to GROWTH times what held last time, is written anew */
#define GROWTH 3

/*
 * A log of pairs; later ones override earlier ones. The key is the number that would follow from the name, made of its
 * directory's number and its text, so nothing needs to be written about what is below a directory that moves.
 *
 * Nothing waits for the disk here, except the thread that rewrites a long log. A pair is written after its change and before
 * the answer to the caller, so killing the process loses none that a process saw. If one is missing (a crash between the two, a
 * full disk) the number follows from the path, unless another file has that number because it was renamed away from there. Then
 * it gets a new one.
 *
 * The counter for new numbers continues from mount to mount: each new number is a pair, so the number of pairs bounds it.
 */
enum { KEY, INO, WORDS }; /* of a pair; INO is 0 if there is nothing */

struct ino_map {
    pthread_mutex_t lock; /* guards the rest */
    uint64_t ino_counter; /* numbers made before the log was written */
    uint64_t long_from;   /* the smallest number of pairs at which it is rewritten, */
    uint64_t long_at;     /* and the next one. Never while the tree is loaded, which needs what was read */
    struct map_log pairs; /* its table, and what follows, is for loading, and remains with f->syncs_out */
    struct map_log taken; /* a table of all numbers in it */
    bool stays;
    struct buf kept; /* valid pairs */
};

/* Numbers that were given up remain for a while: a file whose name leads to one gets another, which does no harm. */
static void ino_map_find_taken(struct ino_map *n)
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
        ino_map_find_taken(n);
    else
        map_log_put(&n->taken, &pair[INO]);
}

/* The line of INO_COUNTER belongs to no name: it leaves the table. */
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
    ino_map_find_taken(n);
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

/* `kept` NULL: writes what the table holds. */
static int ino_map_rewrite(struct ino_map *n, uint64_t ino_counter, const struct buf *kept)
{
    int r = map_log_replace(&n->pairs, (uint64_t[]){ INO_COUNTER, ino_counter }, kept);

    if (r == 0)
        n->ino_counter = ino_counter;
    return r;
}

/* With syncs_out all pairs stay: what is not in the delta is, or was, in the base, and a pair does not tell. */
int ino_map_end_load(struct fence *f)
{
    struct ino_map *n = f->ino_map;
    size_t kept = f->syncs_out ? n->pairs.value_count : n->kept.len / (WORDS * sizeof(uint64_t));
    int r = n->pairs.count > kept * 2 + VOID_MAX ? ino_map_rewrite(n, f->ino_counter, f->syncs_out ? NULL : &n->kept) : 0;

    n->stays = f->syncs_out;
    if (n->stays)
        ino_map_find_taken(n);
    else
        ino_map_clear_tables(n);
    buf_done(&n->kept);
    n->long_at = n->long_from;
    return r;
}

/* Rewrites a log that has become long while the mount is in use; the last pair of each name remains. If that fails it is tried
 * again when the log has grown by as much. [lock] */
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

/* Pairs are written in the order of the changes of a name. A pair that could not be written stays 0, and counts as a number
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

/* Returns 0 for a name without a number. */
static uint64_t ino_map_value_of(struct fence *f, uint64_t name, bool *ret_is_taken)
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

    return ino_map_value_of(f, inode_number_of(dir->ino, name, strlen(name)), &is_taken) != 0;
}

uint64_t ino_map_base_ino(struct fence *f, const struct inode *dir, const char *name, bool for_good)
{
    uint64_t usual = inode_number_of(dir->ino, name, strlen(name));
    bool is_taken;
    uint64_t ino = ino_map_value_of(f, usual, &is_taken);

    if (ino || !is_taken || !for_good)
        return ino ? ino : usual;
    tree_lock(f);
    ino = inode_number_new(f);
    tree_unlock(f);
    ino_map_append(f, usual, ino);
    return ino;
}

/* In the same log, with the number of a name that no directory can contain as the key. */
static uint64_t ino_map_time_key(uint64_t dir_ino)
{
    return inode_number_of(dir_ino, "/", 1);
}

void ino_map_keep_time(struct fence *f, uint64_t dir_ino, int64_t mtime_ns)
{
    if (mtime_ns > 0)
        ino_map_append(f, ino_map_time_key(dir_ino), (uint64_t) mtime_ns);
}

int64_t ino_map_time_of(struct fence *f, uint64_t dir_ino)
{
    bool is_taken;

    return (int64_t) ino_map_value_of(f, ino_map_time_key(dir_ino), &is_taken);
}
