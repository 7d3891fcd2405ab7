#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/gist.h"
#include "fence/record_int.h"

#define GIST_FROM ((off_t) 64 << 10) /* smaller ones are left as they are: whoever reviews reads them whole */
#define GIST_GROWTH 3                /* and so are those that have not grown by this since */
#define YOUNG_NS (5 * CLOCK_NS_PER_SEC)

/*
 * Reading all of a diary and looking for every path in it takes a while, so it is done beside the work, of what was there at the time. What is
 * told meanwhile follows in the new file, under the lock, in the moment in which that takes the place of the old one.
 *
 * Others append to the diary, too, when what the sandbox did is applied (review/change_log_index.c). They lock the file while they do, as we do, and
 * make sure that it is the one that has the name.
 */
struct gisting {
    struct record *record; /* NULL: of a delta at rest */
    int meta_fd, data_fd, base_fd;
    off_t size; /* of what was there */
    uint64_t cleared;
    struct file_pending file;
};

static off_t most(off_t a, off_t b)
{
    return a > b ? a : b;
}

/* One that was there before has been looked at before, most likely. */
void record_gist_init(struct record *record)
{
    struct stat st;

    record->size = fstat(record->fd, &st) < 0 ? 0 : st.st_size;
    record->gist_from = GIST_FROM;
    record->gist_at = most(GIST_FROM, record->size + record->size / 2);
    record->young_ns = YOUNG_NS;
}

void record_set_gist(struct record *record, off_t from_bytes, int64_t young_ns)
{
    record->gist_from = record->gist_at = from_bytes;
    record->young_ns = young_ns;
}

/* What the rules make of it does not matter: nobody inside ever sees the diary. */
static bool is_there(const char *path, void *cookie)
{
    const struct gisting *g = cookie;
    const int layers[] = { g->data_fd, g->base_fd };

    if (g->record && atomic_load(&g->record->is_ending))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
        int fd = path_open_beneath(layers[i], path, O_PATH, 0);

        if (fd >= 0)
            close(fd);
        if (fd >= 0 || !path_is_absent(fd))
            return true;
    }
    return false;
}

/* The gist of what was there, on disk, without a name yet. -ECANCELED: it is not worth it. */
static int make(struct gisting *g, int fd, int64_t young_ns)
{
    autodone(buf) struct buf gist = BUF_EMPTY;
    autofree char *text = malloc((size_t) g->size);
    ssize_t len;
    int r;

    if (!text)
        return -ENOMEM;
    len = fd_pread_full(fd, text, (size_t) g->size, 0);
    if (len < g->size)
        return len < 0 ? (int) len : -ECANCELED;
    /* Others may have had their say between our look at the size and our last line: a line that is not there as a whole comes after. */
    while (g->size > 0 && text[g->size - 1] != '\n')
        g->size--;
    gist_of(text, (size_t) g->size, young_ns, is_there, g, &gist);
    if (gist.len > (size_t) g->size / 2)
        return -ECANCELED;
    r = file_replace_begin(g->meta_fd, RECORD_NAME, 0600, &g->file);
    if (r == 0)
        r = fd_write_full(g->file.fd, gist.data, gist.len);
    return r == 0 && fsync(g->file.fd) < 0 ? -errno : r;
}

/* What came after. */
static int add_tail(struct gisting *g)
{
    char bytes[8192];
    ssize_t n;
    int r = 0;

    for (off_t at = g->size; r == 0 && (n = pread(g->record->fd, bytes, sizeof(bytes), at)) != 0; at += n)
        r = n < 0 ? -errno : fd_write_full(g->file.fd, bytes, (size_t) n);
    return r;
}

/* [locked] */
static int put_in_place(struct gisting *g)
{
    struct record *record = g->record;
    struct stat st;
    int r;

    if (g->cleared != record->cleared || atomic_load(&record->is_ending))
        return -ECANCELED;
    if (flock(record->fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    r = add_tail(g);
    fault("log-gist");
    if (r == 0)
        r = file_replace_commit_opened(&g->file, record->fd);
    flock(record->fd, LOCK_UN);
    /* What was told may not be in there any more. */
    record_forget_told(record);
    record->size = fstat(record->fd, &st) < 0 ? -1 : st.st_size;
    return r;
}

static void *work(void *cookie)
{
    struct gisting *g = cookie;
    struct record *record = g->record;
    int r = make(g, record->fd, clock_wall_ns() - record->young_ns);

    pthread_mutex_lock(&record->lock);
    if (r == 0)
        put_in_place(g);
    /* Where it cannot be done just now it is tried again, but not for each line. */
    record->gist_at = most(record->gist_from, record->size * GIST_GROWTH);
    record->is_gisting = false;
    pthread_mutex_unlock(&record->lock);
    file_replace_abort(&g->file);
    free(g);
    return NULL;
}

void record_gist_consider(struct fence *f, struct record *record)
{
    struct gisting *g;

    if (record->size < record->gist_at || record->is_gisting)
        return;
    if (record->has_thread)
        pthread_join(record->gist_thread, NULL);
    g = xnew(struct gisting);
    *g = (struct gisting){ .record = record, .meta_fd = f->meta_fd, .data_fd = f->data_fd, .base_fd = f->base_fd };
    g->size = record->size;
    g->cleared = record->cleared;
    g->file = FILE_PENDING_NONE;
    record->has_thread = record->is_gisting = pthread_create(&record->gist_thread, NULL, work, g) == 0;
    if (!record->has_thread) {
        record->gist_at = record->size * GIST_GROWTH;
        free(g);
    }
}

void record_gist_end(struct record *record)
{
    atomic_store(&record->is_ending, true);
    if (record->has_thread)
        pthread_join(record->gist_thread, NULL);
    record->has_thread = false;
}

/* The thread is taken out of the lock's care before it is waited for: it ends under the lock. */
void record_await_gist(struct record *record)
{
    pthread_t thread;
    bool has_thread;

    pthread_mutex_lock(&record->lock);
    thread = record->gist_thread;
    has_thread = record->has_thread;
    record->has_thread = false;
    pthread_mutex_unlock(&record->lock);
    if (has_thread)
        pthread_join(thread, NULL);
}

/* Each time that it has grown by as much again: what is not worth it is not tried for each line. */
void record_gist_at_rest(int meta_fd, int data_fd, int base_fd, int diary_fd, off_t size_before)
{
    struct gisting g = { .meta_fd = meta_fd, .data_fd = data_fd, .base_fd = base_fd, .file = FILE_PENDING_NONE };
    struct stat st;

    if (fstat(diary_fd, &st) < 0 || st.st_size / GIST_FROM == size_before / GIST_FROM || flock(diary_fd, LOCK_EX | LOCK_NB) < 0)
        return;
    g.size = st.st_size;
    /* Nobody is in the middle of anything. */
    if (make(&g, diary_fd, INT64_MAX) == 0 && g.size == st.st_size)
        file_replace_commit(&g.file);
    file_replace_abort(&g.file);
    flock(diary_fd, LOCK_UN);
}
