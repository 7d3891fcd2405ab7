#include "fence/number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "fence/inode.h"

#define NAME "numbers"
#define BORN 1 /* stands where a name would: how many numbers were made before this file was written */
#define VOID_MOST 1024
#define LONG_FROM                                                                                                              \
    262144 /* pairs, 4 MiB: a log that has grown to this, and to GROWTH times what held last time, is written anew */
#define GROWTH 3

/*
 * A log of pairs. A name is told by the number that would follow from it, which is made of its directory's number and its text: so
 * nothing has to be written about what is below a directory that moves. Later pairs count.
 *
 * Nobody waits for a disk here, but for the one who writes a long log anew. A pair is written after its change and before the answer to it, so killing the process loses none
 * that anybody saw. Where one is missing (a crash between the two, a full disk) the number follows from the path, unless another
 * file has that: it took it along when it was renamed away from there. Then it is a new one.
 *
 * The counter behind new numbers goes on from mount to mount: each new number is a pair, so the pairs bound it.
 */
struct pair {
    uint64_t name; /* 0: never written */
    uint64_t ino;  /* 0: nothing there */
};

struct numbers {
    int fd;                      /* owned */
    pthread_mutex_t lock;        /* guards the rest */
    uint64_t count, born;        /* pairs in the log; how many numbers were made before it was written */
    uint64_t long_from, long_at; /* with how many pairs it is written anew, at the least and next */
    struct pair *pairs; /* owned; open addressing by name. This and what follows is for loading, and with f->hands_over stays */
    struct pair *taken; /* owned; likewise by `ino`, which stands in `name` */
    size_t pair_cap, pair_count, taken_count;
    bool stays;
    struct buf kept; /* pairs that hold */
};

static struct pair *slot_of(struct pair *pairs, size_t cap, uint64_t name)
{
    size_t i = name & (cap - 1);

    while (pairs[i].name && pairs[i].name != name)
        i = (i + 1) & (cap - 1);
    return &pairs[i];
}

static void add_taken(struct numbers *n, uint64_t ino)
{
    struct pair *slot = slot_of(n->taken, n->pair_cap, ino);

    n->taken_count += !slot->name;
    slot->name = ino;
}

static void find_taken(struct numbers *n)
{
    free(n->taken);
    n->taken = n->pair_cap ? xalloc(n->pair_cap * sizeof(*n->taken)) : NULL;
    n->taken_count = 0;
    for (size_t i = 0; i < n->pair_cap; i++) {
        if (n->pairs[i].ino)
            add_taken(n, n->pairs[i].ino);
    }
}

/* Names of which nothing is left are left out, so the table is as large as what holds, not as what ever was. */
static void make_room(struct numbers *n)
{
    struct pair *old = n->pairs;
    size_t old_cap = n->pair_cap, held = 0;

    for (size_t i = 0; i < old_cap; i++)
        held += old[i].ino != 0;
    n->pair_cap = 64;
    while (n->pair_cap < held * 4)
        n->pair_cap *= 2;
    n->pairs = xalloc(n->pair_cap * sizeof(*n->pairs));
    n->pair_count = held;
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i].ino)
            *slot_of(n->pairs, n->pair_cap, old[i].name) = old[i];
    }
    free(old);
    /* As large as the other, always: both are asked with the same number of slots. */
    if (n->stays || n->taken)
        find_taken(n);
}

static void put(struct numbers *n, struct pair pair)
{
    if (n->pair_count * 2 >= n->pair_cap)
        make_room(n);
    struct pair *slot = slot_of(n->pairs, n->pair_cap, pair.name);
    n->pair_count += !slot->name;
    *slot = pair;
    if ((!n->stays && !n->taken) || !pair.ino)
        return;
    /* One that was given up stays taken for a while: who would have it by its name gets another, which does no harm. */
    if (n->taken_count * 2 >= n->pair_cap)
        find_taken(n);
    else
        add_taken(n, pair.ino);
}

static int read_log(struct numbers *n)
{
    struct pair some[1024];
    uint64_t total = 0, born = 0;
    ssize_t got;

    while ((got = pread(n->fd, some, sizeof(some), (off_t) (total * sizeof(*some)))) >= (ssize_t) sizeof(*some)) {
        size_t count = (size_t) got / sizeof(*some);
        for (size_t i = 0; i < count; i++) {
            if (some[i].name == BORN)
                born += some[i].ino;
            else if (some[i].name)
                put(n, some[i]);
        }
        total += count;
    }
    if (got < 0)
        return -errno;
    n->count = total;
    n->born = born;
    return 0;
}

int numbers_open(struct fence *f, struct numbers **ret_numbers)
{
    int fd = openat(f->meta_fd, NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), r;
    struct numbers *n;

    if (fd < 0)
        return -errno;
    n = xnew(struct numbers);
    n->fd = fd;
    n->long_from = n->long_at = LONG_FROM;
    pthread_mutex_init(&n->lock, NULL);
    r = read_log(n);
    if (r < 0) {
        numbers_close(n);
        return r;
    }
    f->born = n->born + n->count;
    find_taken(n);
    *ret_numbers = n;
    return 0;
}

static void forget_read(struct numbers *n)
{
    free(n->pairs);
    free(n->taken);
    n->pairs = n->taken = NULL;
    n->pair_cap = n->pair_count = 0;
    buf_done(&n->kept);
}

void numbers_close(struct numbers *n)
{
    if (!n)
        return;
    forget_read(n);
    close(n->fd);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

uint64_t numbers_find(struct fence *f, const struct inode *dir, const char *name, bool is_linked)
{
    struct numbers *n = f->numbers;
    uint64_t usual = inode_number_of(dir->ino, name, strlen(name)), ino = usual;

    if (!n->pair_cap)
        return usual;
    const struct pair *pair = slot_of(n->pairs, n->pair_cap, usual);
    if (pair->ino)
        ino = pair->ino;
    else if (!is_linked && slot_of(n->taken, n->pair_cap, usual)->name)
        ino = inode_number_new(f);
    if (ino != usual) {
        struct pair holds = { usual, ino };
        buf_add(&n->kept, &holds, sizeof(holds));
        if (!pair->ino)
            numbers_note(f, dir, name, ino);
    }
    return ino;
}

/* Of the pairs that are kept. */
static int write_anew(struct fence *f, struct numbers *n, uint64_t born)
{
    struct file_pending log = FILE_PENDING_NONE;
    struct pair first = { BORN, born };
    int r = file_replace_begin(f->meta_fd, NAME, 0600, &log);

    if (r == 0)
        r = fd_write_full(log.fd, &first, sizeof(first));
    if (r == 0)
        r = fd_write_full(log.fd, n->kept.data, n->kept.len);
    fault("log-numbers");
    if (r == 0)
        r = file_replace_commit_opened(&log, n->fd);
    file_replace_abort(&log);
    if (r < 0)
        return r;
    n->count = n->kept.len / sizeof(first) + 1;
    n->born = born;
    return 0;
}

/* What is not in the delta is in the base by now, or was: nobody can tell from a pair. */
static void keep_all(struct numbers *n)
{
    buf_clear(&n->kept);
    for (size_t i = 0; i < n->pair_cap; i++) {
        if (n->pairs[i].ino)
            buf_add(&n->kept, &n->pairs[i], sizeof(n->pairs[i]));
    }
}

int numbers_loaded(struct fence *f)
{
    struct numbers *n = f->numbers;
    size_t kept;
    int r;

    if (f->hands_over)
        keep_all(n);
    kept = n->kept.len / sizeof(struct pair);
    r = n->count > kept * 2 + VOID_MOST ? write_anew(f, n, f->born) : 0;
    n->stays = f->hands_over;
    if (n->stays)
        find_taken(n);
    else
        forget_read(n);
    buf_done(&n->kept);
    return r;
}

/* A log that is long by now, while the mount is in use: of each name the last word. Called with the lock; where it cannot be done it is
 * tried again when the log has grown by as much. */
static void shorten(struct fence *f, struct numbers *n)
{
    if (n->stays || read_log(n) == 0) {
        keep_all(n);
        if (n->kept.len / sizeof(struct pair) < n->count / 2)
            write_anew(f, n, n->born + n->count);
    }
    if (!n->stays)
        forget_read(n);
    buf_done(&n->kept);
    n->long_at = n->count * GROWTH > n->long_from ? n->count * GROWTH : n->long_from;
}

/* Places are given out in the order in which changes of one name are made; a pair that could not be written stays 0. */
static void note(struct fence *f, struct pair pair)
{
    struct numbers *n = f->numbers;

    autolock(&n->lock);
    if (f->hands_over)
        put(n, pair);
    if (pwrite(n->fd, &pair, sizeof(pair), (off_t) (n->count++ * sizeof(pair))) == sizeof(pair) && n->count >= n->long_at)
        shorten(f, n);
}

void numbers_set_long(struct fence *f, uint64_t pairs)
{
    f->numbers->long_from = f->numbers->long_at = pairs;
}

void numbers_note(struct fence *f, const struct inode *dir, const char *name, uint64_t ino)
{
    note(f, (struct pair){ inode_number_of(dir->ino, name, strlen(name)), ino });
}

/* Of a name that has none, 0. */
static uint64_t value_of(struct fence *f, uint64_t name, bool *ret_is_taken)
{
    struct numbers *n = f->numbers;

    *ret_is_taken = false;
    if (!f->hands_over)
        return 0;
    autolock(&n->lock);
    if (!n->pair_cap)
        return 0;
    *ret_is_taken = n->taken && slot_of(n->taken, n->pair_cap, name)->name;
    return slot_of(n->pairs, n->pair_cap, name)->ino;
}

bool numbers_keep(struct fence *f, const struct inode *dir, const char *name)
{
    bool is_taken;

    return value_of(f, inode_number_of(dir->ino, name, strlen(name)), &is_taken) != 0;
}

uint64_t numbers_of_base(struct fence *f, const struct inode *dir, const char *name, bool for_good)
{
    uint64_t usual = inode_number_of(dir->ino, name, strlen(name));
    bool is_taken;
    uint64_t ino = value_of(f, usual, &is_taken);

    if (ino || !is_taken || !for_good)
        return ino ? ino : usual;
    tree_lock(f);
    ino = inode_number_new(f);
    tree_unlock(f);
    note(f, (struct pair){ usual, ino });
    return ino;
}

/* In the same log, under what would be the number of a name that no directory can hold. */
static uint64_t time_key(uint64_t dir_ino)
{
    return inode_number_of(dir_ino, "/", 1);
}

void numbers_keep_time(struct fence *f, uint64_t dir_ino, int64_t mtime_ns)
{
    if (mtime_ns > 0)
        note(f, (struct pair){ time_key(dir_ino), (uint64_t) mtime_ns });
}

int64_t numbers_time_of(struct fence *f, uint64_t dir_ino)
{
    bool is_taken;

    return (int64_t) value_of(f, time_key(dir_ino), &is_taken);
}
