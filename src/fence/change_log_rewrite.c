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
#include "fence/change_log_compact.h"
#include "fence/change_log_int.h"

#define REWRITE_MIN_BYTES ((off_t) 64 << 10) /* smaller logs are not compacted: a review reads them in full */
#define REWRITE_GROWTH 3                     /* nor are those that have not grown by this factor since */
#define YOUNG_NS (5 * CLOCK_NS_PER_SEC)

/*
 * Reading a whole change log and looking for every path in it takes a while, so a thread does it beside the work, for the text
 * present at its start. It appends later lines under the lock, at the moment in which the new file replaces the old one.
 *
 * Others append to the log too, when they apply changes (review/change_log_index.c). They lock the file meanwhile, as we do,
 * and verify that it is the one that has the name.
 */
struct log_rewrite {
    struct change_log *change_log; /* NULL: a delta at rest */
    int meta_fd, data_fd, base_fd;
    off_t size; /* of the text at the start */
    uint64_t cleared;
    struct file_pending file;
};

static off_t max_off(off_t a, off_t b)
{
    return a > b ? a : b;
}

/* A log that existed before was probably compacted before. */
void change_log_rewrite_init(struct change_log *change_log)
{
    struct stat st;

    change_log->size = fstat(change_log->fd, &st) < 0 ? 0 : st.st_size;
    change_log->rewrite_min_bytes = REWRITE_MIN_BYTES;
    change_log->rewrite_at_bytes = max_off(REWRITE_MIN_BYTES, change_log->size + change_log->size / 2);
    change_log->young_ns = YOUNG_NS;
}

void change_log_set_rewrite(struct change_log *change_log, off_t from_bytes, int64_t young_ns)
{
    change_log->rewrite_min_bytes = change_log->rewrite_at_bytes = from_bytes;
    change_log->young_ns = young_ns;
}

/* Rules do not matter here: the sandbox never sees the change log. */
static bool exists_in_layers(const char *path, void *cookie)
{
    const struct log_rewrite *g = cookie;
    const int layers[] = { g->data_fd, g->base_fd };

    if (g->change_log && atomic_load(&g->change_log->is_ending))
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

/* Writes the compacted text to a file on disk that has no name yet. Returns -ECANCELED if it is not worth it. */
static int make_compacted_file(struct log_rewrite *g, int fd, int64_t young_ns)
{
    autodone(buf) struct buf compacted = BUF_EMPTY;
    autofree char *text = malloc((size_t) g->size);
    ssize_t len;
    int r;

    if (!text)
        return -ENOMEM;
    len = fd_pread_full(fd, text, (size_t) g->size, 0);
    if (len < g->size)
        return len < 0 ? (int) len : -ECANCELED;
    /* Others may have appended between our look at the size and our last line: an incomplete line is left for add_tail(). */
    while (g->size > 0 && text[g->size - 1] != '\n')
        g->size--;
    change_log_compact(text, (size_t) g->size, young_ns, exists_in_layers, g, &compacted);
    if (compacted.len > (size_t) g->size / 2)
        return -ECANCELED;
    r = file_replace_begin(g->meta_fd, CHANGE_LOG_NAME, 0600, &g->file);
    if (r == 0)
        r = fd_write_full(g->file.fd, compacted.data, compacted.len);
    return r == 0 && fsync(g->file.fd) < 0 ? -errno : r;
}

/* Appends what was logged after the start. */
static int add_tail(struct log_rewrite *g)
{
    char bytes[8192];
    ssize_t n;
    int r = 0;

    for (off_t at = g->size; r == 0 && (n = pread(g->change_log->fd, bytes, sizeof(bytes), at)) != 0; at += n)
        r = n < 0 ? -errno : fd_write_full(g->file.fd, bytes, (size_t) n);
    return r;
}

/* [locked] */
static int replace_log(struct log_rewrite *g)
{
    struct change_log *change_log = g->change_log;
    struct stat st;
    int r;

    if (g->cleared != change_log->cleared || atomic_load(&change_log->is_ending))
        return -ECANCELED;
    if (flock(change_log->fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    r = add_tail(g);
    fault("log-gist");
    if (r == 0)
        r = file_replace_commit_opened(&g->file, change_log->fd);
    flock(change_log->fd, LOCK_UN);
    /* Logged lines may have been dropped. */
    change_log_forget_logged(change_log);
    change_log->size = fstat(change_log->fd, &st) < 0 ? -1 : st.st_size;
    return r;
}

static void *rewrite_thread_main(void *cookie)
{
    struct log_rewrite *g = cookie;
    struct change_log *change_log = g->change_log;
    int r = make_compacted_file(g, change_log->fd, clock_wall_ns() - change_log->young_ns);

    pthread_mutex_lock(&change_log->lock);
    if (r == 0)
        replace_log(g);
    /* If it failed, it is tried again later, but not for each line. */
    change_log->rewrite_at_bytes = max_off(change_log->rewrite_min_bytes, change_log->size * REWRITE_GROWTH);
    change_log->is_rewriting = false;
    pthread_mutex_unlock(&change_log->lock);
    file_replace_abort(&g->file);
    free(g);
    return NULL;
}

void change_log_rewrite_if_due(struct fence *f, struct change_log *change_log)
{
    struct log_rewrite *g;

    if (change_log->size < change_log->rewrite_at_bytes || change_log->is_rewriting)
        return;
    if (change_log->has_thread)
        pthread_join(change_log->rewrite_thread, NULL);
    g = xnew(struct log_rewrite);
    *g = (struct log_rewrite){ .change_log = change_log, .meta_fd = f->meta_fd, .data_fd = f->data_fd, .base_fd = f->base_fd };
    g->size = change_log->size;
    g->cleared = change_log->cleared;
    g->file = FILE_PENDING_NONE;
    change_log->has_thread = change_log->is_rewriting =
        pthread_create(&change_log->rewrite_thread, NULL, rewrite_thread_main, g) == 0;
    if (!change_log->has_thread) {
        change_log->rewrite_at_bytes = change_log->size * REWRITE_GROWTH;
        free(g);
    }
}

void change_log_rewrite_end(struct change_log *change_log)
{
    atomic_store(&change_log->is_ending, true);
    if (change_log->has_thread)
        pthread_join(change_log->rewrite_thread, NULL);
    change_log->has_thread = false;
}

/* Takes the thread out of the struct before joining it: it needs the lock to end. */
void change_log_await_rewrite(struct change_log *change_log)
{
    pthread_t thread;
    bool has_thread;

    pthread_mutex_lock(&change_log->lock);
    thread = change_log->rewrite_thread;
    has_thread = change_log->has_thread;
    change_log->has_thread = false;
    pthread_mutex_unlock(&change_log->lock);
    if (has_thread)
        pthread_join(thread, NULL);
}

/* Tries once per REWRITE_MIN_BYTES of growth and not for each line. */
void change_log_rewrite_at_rest(int meta_fd, int data_fd, int base_fd, int log_fd, off_t size_before)
{
    struct log_rewrite g = { .meta_fd = meta_fd, .data_fd = data_fd, .base_fd = base_fd, .file = FILE_PENDING_NONE };
    struct stat st;

    if (fstat(log_fd, &st) < 0 || st.st_size / REWRITE_MIN_BYTES == size_before / REWRITE_MIN_BYTES ||
        flock(log_fd, LOCK_EX | LOCK_NB) < 0)
        return;
    g.size = st.st_size;
    /* No change is under way, so no line is too young. */
    if (make_compacted_file(&g, log_fd, INT64_MAX) == 0 && g.size == st.st_size)
        file_replace_commit(&g.file);
    file_replace_abort(&g.file);
    flock(log_fd, LOCK_UN);
}
