#include "fence/read_log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copyup.h"
#include "fence/inode.h"
#include "fence/map_log.h"

#define NAME "served"
#define SEED 11
#define SAME_MAX                                                                                                               \
    ((off_t) 64 << 20)    /* larger ones are not compared: writing one again makes a conflict, unless it is read before */
#define LONG_PAIRS 262144 /* 4 MiB: a longer log that is mostly void is rewritten when it is read */
#define UNREAD_PAIRS_MAX 4194304 /* 64 MiB: a log of this length is read even if nothing needs it */

/*
 * A log of pairs; later ones override earlier ones. As with inode numbers nothing waits for the disk, and killing the process
 * loses no pair that mattered to a process. It is read when the first file is covered: a sandbox that only reads pays for the
 * writing alone.
 *
 * The key is a hash of the path. The log contains files of the base only, whose names the agent does not choose.
 */
enum { KEY, WORD, WORDS }; /* of a pair; WORD is the state of the file, never 0 */

struct read_log {
    pthread_mutex_t lock; /* guards the rest */
    struct map_log pairs;
    bool is_read;
};

static uint64_t read_log_key(const char *path)
{
    return inode_hash(SEED, path, strlen(path)) | 1;
}

/* Without the ctime: chmod(2) or another link does not change what was read. */
static uint64_t read_log_stamp(const struct stat *st)
{
    const uint64_t words[] = { st->st_ino, (uint64_t) st->st_size, (uint64_t) st->st_mtim.tv_sec,
                               (uint64_t) st->st_mtim.tv_nsec };

    return inode_hash(SEED, (const char *) words, sizeof(words)) | 1;
}

/* [locked] */
static void read_log_load(struct read_log *s)
{
    if (s->is_read)
        return;
    s->is_read = true;
    map_log_read(&s->pairs);
    if (s->pairs.count > LONG_PAIRS && s->pairs.count > s->pairs.value_count * 2)
        map_log_replace(&s->pairs, NULL, NULL);
}

static void read_log_append(struct read_log *s, const uint64_t *pair)
{
    autolock(&s->lock);
    if (s->pairs.count > UNREAD_PAIRS_MAX)
        read_log_load(s);
    if (!s->is_read || map_log_put(&s->pairs, pair))
        map_log_append(&s->pairs, pair);
}

int read_log_open(struct fence *f, struct read_log **ret)
{
    struct map_log pairs = { .words = WORDS, .void_at = WORD, .void_word = 0 };
    int r = map_log_open(&pairs, f->meta_fd, NAME);
    struct read_log *s;

    if (r < 0)
        return r;
    s = xnew(struct read_log);
    s->pairs = pairs;
    pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

void read_log_close(struct read_log *s)
{
    if (!s)
        return;
    map_log_close(&s->pairs);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The handle caches what was recorded, so only the first read of a version costs more than an fstat(2). */
void read_log_note(struct fence *f, struct inode *inode, struct handle *from)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    struct stat st;
    uint64_t word;

    if (!f->read_log || fstat(from->fd, &st) < 0)
        return;
    word = read_log_stamp(&st);
    if (atomic_exchange(&from->read_stamp, word) == word)
        return;
    tree_path_of(f, inode, NULL, &path);
    if (path.data)
        read_log_append(f->read_log, (uint64_t[WORDS]){ read_log_key(path.data), word });
}

bool read_log_base_moved_on(struct fence *f, struct inode *inode, const struct stat *base)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    const uint64_t *pair;

    if (!f->read_log)
        return false;
    tree_path_of(f, inode, NULL, &path);
    if (!path.data)
        return false;
    autolock(&f->read_log->lock);
    read_log_load(f->read_log);
    pair = map_log_find(&f->read_log->pairs, read_log_key(path.data));
    return pair && pair[WORD] != read_log_stamp(base);
}

/* ---- reverting ---- */

static bool read_log_find_same(int data_fd, int base_fd, const char *path, uint64_t ret[WORDS])
{
    autofd int ours = path_open_beneath(data_fd, path, O_RDONLY | O_NONBLOCK, 0);
    autofd int base = ours < 0 || base_fd < 0 ? -1 : path_open_beneath(base_fd, path, O_RDONLY | O_NONBLOCK, 0);
    struct stat st, now;

    if (base < 0 || fstat(ours, &st) < 0 || fstat(base, &now) < 0 || !S_ISREG(st.st_mode) || !S_ISREG(now.st_mode) ||
        st.st_size != now.st_size || st.st_size > SAME_MAX || copyup_same_content(ours, base) != 1)
        return false;
    ret[KEY] = read_log_key(path);
    ret[WORD] = read_log_stamp(&now);
    return true;
}

void read_log_before_revert(struct fence *f, const char *path)
{
    uint64_t pair[WORDS];

    if (f->read_log && read_log_find_same(f->data_fd, f->base_fd, path, pair))
        read_log_append(f->read_log, pair);
}

void read_log_before_revert_at_rest(int meta_fd, int data_fd, int base_fd, const char *path)
{
    autofd int fd = path_open_beneath(meta_fd, NAME, O_WRONLY, 0);
    struct stat st;
    uint64_t pair[WORDS];

    if (fd >= 0 && fstat(fd, &st) == 0 && read_log_find_same(data_fd, base_fd, path, pair) &&
        pwrite(fd, pair, sizeof(pair), st.st_size - st.st_size % (off_t) sizeof(pair)) < 0)
        return;
}
