#include "fence/number.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/ledger.h"

#define NAME "numbers"
#define BORN 1 /* as a key: how many numbers were made before this file was written */
#define VOID_MOST 1024
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

struct numbers {
    pthread_mutex_t lock; /* guards the rest */
    uint64_t born;        /* how many numbers were made before the log was written */
    uint64_t long_from;   /* with how many pairs it is written anew, at the least; */
    uint64_t long_at;     /* and next. Not while the tree is loaded: what was read is needed until then */
    struct ledger pairs;  /* its table, and what follows, is for loading, and with f->hands_over stays */
    struct ledger taken;  /* a table of the numbers in it */
    bool stays;
    struct buf kept; /* pairs that hold */
};

/* One that was given up stays for a while: who would have it by its name gets another, which does no harm. */
static void find_taken(struct numbers *n)
{
    const uint64_t *pair;

    ledger_forget(&n->taken);
    for (size_t slot = 0; (pair = ledger_next(&n->pairs, &slot));)
        ledger_put(&n->taken, &pair[INO]);
}

static void put(struct numbers *n, const uint64_t *pair)
{
    ledger_put(&n->pairs, pair);
    if (!pair[INO])
        return;
    if (n->taken.cap && n->taken.used * 2 >= n->taken.cap)
        find_taken(n);
    else
        ledger_put(&n->taken, &pair[INO]);
}

/* The line of BORN is no pair of a name: it leaves the table. */
static int read_log(struct numbers *n)
{
    int r = ledger_read(&n->pairs);
    const uint64_t *born = ledger_find(&n->pairs, BORN);

    if (r < 0)
        return r;
    n->born = born ? born[INO] : 0;
    ledger_put(&n->pairs, (uint64_t[WORDS]){ BORN, 0 });
    return 0;
}

int numbers_open(struct fence *f, struct numbers **ret_numbers)
{
    struct ledger pairs = { .words = WORDS, .void_at = INO, .void_word = 0 };
    int r = ledger_open(&pairs, f->meta_fd, NAME);
    struct numbers *n;

    if (r < 0)
        return r;
    n = xnew(struct numbers);
    n->pairs = pairs;
    n->taken = (struct ledger){ .words = 1 };
    n->long_from = LONG_FROM;
    n->long_at = UINT64_MAX;
    pthread_mutex_init(&n->lock, NULL);
    r = read_log(n);
    if (r < 0) {
        numbers_close(n);
        return r;
    }
    f->born = n->born + n->pairs.count;
    find_taken(n);
    *ret_numbers = n;
    return 0;
}

static void forget_read(struct numbers *n)
{
    ledger_forget(&n->pairs);
    ledger_forget(&n->taken);
    buf_done(&n->kept);
}

void numbers_close(struct numbers *n)
{
    if (!n)
        return;
    forget_read(n);
    ledger_close(&n->pairs);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

uint64_t numbers_find(struct fence *f, const struct inode *dir, const char *name, bool is_linked)
{
    struct numbers *n = f->numbers;
    uint64_t usual = inode_number_of(dir->ino, name, strlen(name));
    const uint64_t *known = ledger_find(&n->pairs, usual);
    uint64_t pair[WORDS] = { usual, usual };

    if (known)
        pair[INO] = known[INO];
    else if (!is_linked && ledger_find(&n->taken, usual))
        pair[INO] = inode_number_new(f);
    if (pair[INO] != usual) {
        buf_add(&n->kept, pair, sizeof(pair));
        if (!known)
            numbers_note(f, dir, name, pair[INO]);
    }
    return pair[INO];
}

/* NULL: of what the table holds. */
static int write_anew(struct numbers *n, uint64_t born, const struct buf *kept)
{
    int r = ledger_replace(&n->pairs, (uint64_t[]){ BORN, born }, kept);

    if (r == 0)
        n->born = born;
    return r;
}

/* Where changes are handed over all stays: what is not in the delta is in the base by now, or was, and nobody can tell from a pair. */
int numbers_loaded(struct fence *f)
{
    struct numbers *n = f->numbers;
    size_t kept = f->hands_over ? n->pairs.held : n->kept.len / (WORDS * sizeof(uint64_t));
    int r = n->pairs.count > kept * 2 + VOID_MOST ? write_anew(n, f->born, f->hands_over ? NULL : &n->kept) : 0;

    n->stays = f->hands_over;
    if (n->stays)
        find_taken(n);
    else
        forget_read(n);
    buf_done(&n->kept);
    n->long_at = n->long_from;
    return r;
}

/* A log that is long by now, while the mount is in use: of each name the last word. Called with the lock; where it cannot be done it is
 * tried again when the log has grown by as much. */
static void shorten(struct numbers *n)
{
    uint64_t count = n->pairs.count;

    if ((n->stays || read_log(n) == 0) && n->pairs.held < count / 2)
        write_anew(n, n->born + count, NULL);
    if (!n->stays)
        forget_read(n);
    count = n->pairs.count;
    n->long_at = count * GROWTH > n->long_from ? count * GROWTH : n->long_from;
}

/* Places are given out in the order in which changes of one name are made; a pair that could not be written stays 0, and counts as a number
 * that was made. */
static void note(struct fence *f, uint64_t key, uint64_t ino)
{
    const uint64_t pair[WORDS] = { key, ino };
    struct numbers *n = f->numbers;

    autolock(&n->lock);
    if (f->hands_over)
        put(n, pair);
    if (!ledger_append(&n->pairs, pair))
        n->pairs.count++;
    else if (n->pairs.count >= n->long_at)
        shorten(n);
}

void numbers_set_long(struct fence *f, uint64_t pairs)
{
    f->numbers->long_from = f->numbers->long_at = pairs;
}

void numbers_note(struct fence *f, const struct inode *dir, const char *name, uint64_t ino)
{
    note(f, inode_number_of(dir->ino, name, strlen(name)), ino);
}

/* Of a name that has none, 0. */
static uint64_t value_of(struct fence *f, uint64_t name, bool *ret_is_taken)
{
    struct numbers *n = f->numbers;
    const uint64_t *pair;

    *ret_is_taken = false;
    if (!f->hands_over)
        return 0;
    autolock(&n->lock);
    *ret_is_taken = ledger_find(&n->taken, name);
    pair = ledger_find(&n->pairs, name);
    return pair ? pair[INO] : 0;
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
    note(f, usual, ino);
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
        note(f, time_key(dir_ino), (uint64_t) mtime_ns);
}

int64_t numbers_time_of(struct fence *f, uint64_t dir_ino)
{
    bool is_taken;

    return (int64_t) value_of(f, time_key(dir_ino), &is_taken);
}
