#include "fence/served.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/inode.h"

#define NAME "served"
#define SEED 11
#define SAME_BYTES 65536
#define SAME_MOST                                                                                                              \
    ((off_t) 64 << 20) /* larger ones are not compared: whoever writes one anew makes a conflict, unless it is read before */
#define LONG_BYTES ((off_t) 4 << 20)   /* a log of more, most of it void, is written anew when it is read */
#define UNREAD_MOST ((off_t) 64 << 20) /* and read at the latest when it is this long */

/*
 * A log of pairs; later ones count. As with numbers nobody waits for a disk, and killing the process loses none that anybody saw. It is read
 * when the first file is covered: who only reads pays for what is written here and nothing else.
 *
 * A path is told by its hash. Only files of the base are in it, whose names the agent does not choose.
 */
struct pair {
    uint64_t path; /* 0: never written */
    uint64_t word; /* what the file was */
};

struct served {
    int fd; /* owned */
    pthread_mutex_t lock;
    off_t end;
    struct pair *pairs; /* owned; open addressing by path; NULL until it is read */
    size_t cap, count;
};

static uint64_t key_of(const char *path)
{
    return inode_hash(SEED, path, strlen(path)) | 1;
}

/* Not by its change time: a chmod(2), or another name of it, does not make it another to who has read it. */
static uint64_t word_of(const struct stat *st)
{
    const uint64_t words[] = { st->st_ino, (uint64_t) st->st_size, (uint64_t) st->st_mtim.tv_sec,
                               (uint64_t) st->st_mtim.tv_nsec };

    return inode_hash(SEED, (const char *) words, sizeof(words)) | 1;
}

static struct pair *slot_of(struct pair *pairs, size_t cap, uint64_t path)
{
    size_t i = (path >> 1) & (cap - 1);

    while (pairs[i].path && pairs[i].path != path)
        i = (i + 1) & (cap - 1);
    return &pairs[i];
}

static void grow(struct served *s)
{
    struct pair *old = s->pairs;
    size_t old_cap = s->cap;

    s->cap = old_cap ? old_cap * 2 : 64;
    s->pairs = xalloc(s->cap * sizeof(*s->pairs));
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i].path)
            *slot_of(s->pairs, s->cap, old[i].path) = old[i];
    }
    free(old);
}

/* False: that is what it said already. */
static bool put(struct served *s, struct pair pair)
{
    struct pair *slot;

    if (s->count * 2 >= s->cap)
        grow(s);
    slot = slot_of(s->pairs, s->cap, pair.path);
    if (slot->word == pair.word)
        return false;
    s->count += !slot->path;
    *slot = pair;
    return true;
}

static int write_anew(struct fence *f, struct served *s)
{
    struct file_pending log = FILE_PENDING_NONE;
    int r = file_replace_begin(f->meta_fd, NAME, 0600, &log);

    for (size_t i = 0; r == 0 && i < s->cap; i++) {
        if (s->pairs[i].path)
            r = fd_write_full(log.fd, &s->pairs[i], sizeof(s->pairs[i]));
    }
    if (r == 0)
        r = file_replace_commit_opened(&log, s->fd);
    if (r == 0)
        s->end = (off_t) (s->count * sizeof(struct pair));
    file_replace_abort(&log);
    return r;
}

/* [locked] */
static void load(struct fence *f, struct served *s)
{
    struct pair some[512];
    off_t at = 0;
    ssize_t got;

    if (s->pairs)
        return;
    grow(s);
    while ((got = pread(s->fd, some, sizeof(some), at)) >= (ssize_t) sizeof(*some)) {
        size_t count = (size_t) got / sizeof(*some);
        for (size_t i = 0; i < count; i++) {
            if (some[i].path)
                put(s, some[i]);
        }
        at += (off_t) (count * sizeof(*some));
    }
    if (s->end > LONG_BYTES && (size_t) s->end / sizeof(struct pair) > s->count * 2)
        write_anew(f, s);
}

static void append(struct fence *f, struct served *s, struct pair pair)
{
    autolock(&s->lock);
    if (s->end > UNREAD_MOST)
        load(f, s);
    if (s->pairs && !put(s, pair))
        return;
    if (pwrite(s->fd, &pair, sizeof(pair), s->end) == (ssize_t) sizeof(pair))
        s->end += (off_t) sizeof(pair);
}

int served_open(struct fence *f, struct served **ret)
{
    int fd = openat(f->meta_fd, NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat st;
    struct served *s;

    if (fd < 0 || fstat(fd, &st) < 0) {
        int r = -errno;
        if (fd >= 0)
            close(fd);
        return r;
    }
    s = xnew(struct served);
    s->fd = fd;
    s->end = st.st_size - st.st_size % (off_t) sizeof(struct pair);
    pthread_mutex_init(&s->lock, NULL);
    *ret = s;
    return 0;
}

void served_close(struct served *s)
{
    if (!s)
        return;
    close(s->fd);
    pthread_mutex_destroy(&s->lock);
    free(s->pairs);
    free(s);
}

/* The handle remembers what was noted, so that only the first look at a version costs more than an fstat(2). */
void served_note(struct fence *f, struct inode *inode, struct handle *from)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    struct stat st;
    uint64_t word;

    if (!f->served || fstat(from->fd, &st) < 0)
        return;
    word = word_of(&st);
    if (atomic_exchange(&from->served, word) == word)
        return;
    tree_path_of(f, inode, NULL, &path);
    if (path.data)
        append(f, f->served, (struct pair){ key_of(path.data), word });
}

bool served_has_moved_on(struct fence *f, struct inode *inode, const struct stat *base)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    const struct pair *pair;

    if (!f->served)
        return false;
    tree_path_of(f, inode, NULL, &path);
    if (!path.data)
        return false;
    autolock(&f->served->lock);
    load(f, f->served);
    pair = slot_of(f->served->pairs, f->served->cap, key_of(path.data));
    return pair->path && pair->word != word_of(base);
}

/* ---- what is approved ---- */

static bool has_same_bytes(int a, int b)
{
    autofree char *bytes = malloc(2 * (size_t) SAME_BYTES);
    off_t at = 0;

    for (ssize_t n = 1, m; bytes && n > 0; at += n) {
        n = fd_pread_full(a, bytes, SAME_BYTES, at);
        m = fd_pread_full(b, bytes + SAME_BYTES, SAME_BYTES, at);
        if (n < 0 || n != m || memcmp(bytes, bytes + SAME_BYTES, (size_t) n) != 0)
            return false;
    }
    return bytes;
}

static bool find_same(int data_fd, int base_fd, const char *path, struct pair *ret)
{
    autofd int ours = path_open_beneath(data_fd, path, O_RDONLY | O_NONBLOCK, 0);
    autofd int base = ours < 0 || base_fd < 0 ? -1 : path_open_beneath(base_fd, path, O_RDONLY | O_NONBLOCK, 0);
    struct stat st, now;

    if (base < 0 || fstat(ours, &st) < 0 || fstat(base, &now) < 0 || !S_ISREG(st.st_mode) || !S_ISREG(now.st_mode) ||
        st.st_size != now.st_size || st.st_size > SAME_MOST || !has_same_bytes(ours, base))
        return false;
    *ret = (struct pair){ key_of(path), word_of(&now) };
    return true;
}

void served_will_drop(struct fence *f, const char *path)
{
    struct pair pair;

    if (f->served && find_same(f->data_fd, f->base_fd, path, &pair))
        append(f, f->served, pair);
}

void served_will_drop_at_rest(int meta_fd, int data_fd, int base_fd, const char *path)
{
    autofd int fd = path_open_beneath(meta_fd, NAME, O_WRONLY, 0);
    struct stat st;
    struct pair pair;

    if (fd >= 0 && fstat(fd, &st) == 0 && find_same(data_fd, base_fd, path, &pair) &&
        pwrite(fd, &pair, sizeof(pair), st.st_size - st.st_size % (off_t) sizeof(pair)) < 0)
        return;
}
