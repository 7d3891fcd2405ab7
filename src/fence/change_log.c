#include "fence/change_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "fence/change_log_compact.h"
#include "fence/copyup.h"
#include "fence/inode.h"
#include "fence/read_log.h"
#include "fence/revert.h"

#define HASH_MAX ((off_t) 64 << 20)          /* larger files are recorded without a hash */
#define REWRITE_MIN_BYTES ((off_t) 64 << 10) /* smaller logs are not compacted: a review reads them in full */
#define REWRITE_GROWTH 3                     /* nor are those that have not grown by this factor since */
#define YOUNG_NS (5 * CLOCK_NS_PER_SEC)

/*
 * Recently logged changes, so that a program that repeats itself does not fill the disk with log lines: the same kind of change
 * of the same path by the same exec is logged once, until another exec changes the path, the path leaves the delta, or somebody
 * else appends to the log. The reader (review/change_log_index.c) learns nothing from a second line. A path that is not in this
 * table any more is logged again.
 */
enum {
    LOGGED_CREATED = 1,
    LOGGED_REMOVED = 2,
    LOGGED_RENAMED_TO = 4, /* the path is the target of a rename */
    LOGGED_WRITTEN = 8,
    LOGGED_ATTRS = 16,
};

static const char *const kind_names[] = {
    [CHANGE_LOG_CREATED] = "created", [CHANGE_LOG_WRITTEN] = "written", [CHANGE_LOG_ATTRS] = "attrs",
    [CHANGE_LOG_DELETED] = "deleted", [CHANGE_LOG_RENAMED] = "renamed", [CHANGE_LOG_LINKED] = "linked",
};

#define CHANGE_LOG_NAME "changes" /* in <delta>/meta */
#define LOGGED_SLOTS 512          /* a power of two */

struct logged_change {
    uint64_t path; /* hashes */
    uint32_t exec;
    uint32_t kinds;
};

struct change_log {
    int fd; /* owned; O_APPEND. The number stays when the file is replaced */
    pthread_mutex_t lock;
    struct logged_change *logged; /* owned; NULL: nothing was logged. Guarded by lock, as are the next three */
    off_t size;                   /* of the file after our last write */
    bool is_torn;                 /* its last line is incomplete */
    uint64_t cleared;             /* how often it was emptied */

    off_t rewrite_min_bytes, rewrite_at_bytes; /* the smallest size at which it is compacted, and the next one */
    int64_t young_ns;
    pthread_t rewrite_thread;
    bool has_thread, is_rewriting; /* a thread must be joined; and is still at work */
    _Atomic bool is_ending;
};

/* [locked] Forgets which changes were logged, so that they are logged again. */
static void change_log_forget_logged(struct change_log *change_log)
{
    if (change_log->logged)
        memset(change_log->logged, 0, LOGGED_SLOTS * sizeof(*change_log->logged));
}

/* ---- compaction ---- */

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
    /* Others may have appended between our look at the size and our last line: an incomplete line is left for
     * log_rewrite_add_tail(). */
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
static int log_rewrite_add_tail(struct log_rewrite *g)
{
    char bytes[8192];
    ssize_t n;
    int r = 0;

    for (off_t at = g->size; r == 0 && (n = pread(g->change_log->fd, bytes, sizeof(bytes), at)) != 0; at += n)
        r = n < 0 ? -errno : fd_write_full(g->file.fd, bytes, (size_t) n);
    return r;
}

/* [locked] */
static int log_rewrite_install(struct log_rewrite *g)
{
    struct change_log *change_log = g->change_log;
    struct stat st;
    int r;

    if (g->cleared != change_log->cleared || atomic_load(&change_log->is_ending))
        return -ECANCELED;
    if (flock(change_log->fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    r = log_rewrite_add_tail(g);
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
        log_rewrite_install(g);
    /* If it failed, it is tried again later, but not for each line. */
    change_log->rewrite_at_bytes = max_off(change_log->rewrite_min_bytes, change_log->size * REWRITE_GROWTH);
    change_log->is_rewriting = false;
    pthread_mutex_unlock(&change_log->lock);
    file_replace_abort(&g->file);
    free(g);
    return NULL;
}

/* [locked] Starts a thread that compacts the log, if it is due. */
static void change_log_rewrite_if_due(struct fence *f, struct change_log *change_log)
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

/* ---- life ---- */

int change_log_new(struct fence *f, struct change_log **ret_change_log)
{
    int fd = openat(f->meta_fd, CHANGE_LOG_NAME, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct change_log *log;
    struct stat st;

    if (fd < 0)
        return -errno;
    log = xnew(struct change_log);
    log->fd = fd;
    log->size = fstat(fd, &st) < 0 ? 0 : st.st_size;
    log->rewrite_min_bytes = REWRITE_MIN_BYTES;
    /* A log that existed before was probably compacted before. */
    log->rewrite_at_bytes = max_off(REWRITE_MIN_BYTES, log->size + log->size / 2);
    log->young_ns = YOUNG_NS;
    pthread_mutex_init(&log->lock, NULL);
    *ret_change_log = log;
    return 0;
}

/* The compaction thread ends without finishing. */
void change_log_free(struct change_log *log)
{
    if (!log)
        return;
    atomic_store(&log->is_ending, true);
    if (log->has_thread)
        pthread_join(log->rewrite_thread, NULL);
    close(log->fd);
    free(log->logged);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

/* ---- recently logged ---- */

static uint32_t kinds_of(enum change_log_kind kind)
{
    switch (kind) {
    case CHANGE_LOG_CREATED:
    case CHANGE_LOG_LINKED:
        return LOGGED_CREATED;
    case CHANGE_LOG_DELETED:
    case CHANGE_LOG_RENAMED:
        return LOGGED_REMOVED;
    case CHANGE_LOG_WRITTEN:
        return LOGGED_WRITTEN;
    case CHANGE_LOG_ATTRS:
        return LOGGED_ATTRS;
    }
    return 0;
}

static struct logged_change *logged_slot(struct change_log *change_log, uint64_t path)
{
    return &change_log->logged[path % LOGGED_SLOTS];
}

static bool was_logged(struct change_log *change_log, uint64_t path, uint32_t exec, uint32_t kinds)
{
    const struct logged_change *logged = logged_slot(change_log, path);

    return logged->path == path && logged->exec == exec && logged->kinds & kinds;
}

static void mark_logged(struct change_log *change_log, uint64_t path, uint32_t exec, uint32_t kinds)
{
    struct logged_change *logged = logged_slot(change_log, path);

    if (logged->path != path || logged->exec != exec)
        *logged = (struct logged_change){ .path = path, .exec = exec };
    logged->kinds |= kinds;
}

/* ---- */

void change_log_clear(struct change_log *change_log)
{
    autolock(&change_log->lock);
    change_log_forget_logged(change_log);
    change_log->cleared++;
    change_log->is_torn = false;
    if (ftruncate(change_log->fd, 0) < 0)
        return;
}

int change_log_add_reverted(struct change_log *change_log, const char *const *paths, size_t count)
{
    autolock(&change_log->lock);
    change_log_forget_logged(change_log);
    return revert_log(change_log->fd, paths, count);
}

/* May be called while the descriptor changes to another file: that file is already on disk. */
int change_log_sync(struct change_log *change_log)
{
    return fdatasync(change_log->fd) < 0 ? -errno : 0;
}

void change_log_format_string(struct buf *out, const char *s)
{
    size_t len = strlen(s);

    buf_add_char(out, '"');
    while (len > 0) {
        uint32_t c;
        size_t n = utf8_decode(s, len, &c);
        if (n == 0)
            buf_addf(out, "\\udc%02x", (unsigned char) *s);
        else if (c < 0x20 || c == 0x7f)
            buf_addf(out, "\\u%04x", (unsigned) c);
        else if (c == '"' || c == '\\')
            buf_addf(out, "\\%c", (char) c);
        else
            buf_add(out, s, n);
        s += n ? n : 1;
        len -= n ? n : 1;
    }
    buf_add_char(out, '"');
}

static void change_log_begin_line(struct buf *line, const char *what, const char *path, const char *exec)
{
    buf_addf(line, "{\"time_ns\":%" PRId64 ",\"change\":\"%s\",\"path\":", clock_wall_ns(), what);
    change_log_format_string(line, path);
    if (*exec) {
        buf_add_str(line, ",\"exec\":");
        change_log_format_string(line, exec);
    }
}

/* Failure to write the log must not stop the work. Returns false if the line was not written in full. [locked] */
static bool change_log_end_line(struct change_log *change_log, struct buf *line)
{
    ssize_t n;

    buf_add_str(line, "}\n");
    /* A newline first if the last line is incomplete. */
    n = writev(change_log->fd, (const struct iovec[]){ { (char[]){ '\n' }, change_log->is_torn }, { line->data, line->len } },
               2);
    if (n < 0 || (size_t) n != change_log->is_torn + line->len) {
        change_log->is_torn |= n > 0;
        change_log_forget_logged(change_log);
        return false;
    }
    change_log->size += n;
    change_log->is_torn = false;
    return true;
}

/* Others append while changes are applied: what was logged before may have to be logged again. */
static void detect_foreign_lines(struct change_log *change_log)
{
    struct stat st;

    if (!change_log->logged)
        change_log->logged = xalloc(LOGGED_SLOTS * sizeof(*change_log->logged));
    if (fstat(change_log->fd, &st) < 0)
        st.st_size = -1;
    if (st.st_size != change_log->size)
        change_log_forget_logged(change_log);
    change_log->size = st.st_size;
}

/* With a secret: a process that could find two paths with one hash could change the second without a log line. */
static uint64_t hash_logged_text(const struct fence *f, const char *text)
{
    return text ? inode_hash(f->hash_secret, text, strlen(text)) : 0;
}

static void log_change(struct fence *f, enum change_log_kind kind, const char *path, const char *other,
                       const struct op_caller *who)
{
    struct change_log *change_log = f->change_log;
    autodone(buf) struct buf line = BUF_EMPTY;
    char exec[FENCE_EXEC_MAX] = "";
    uint64_t path_hash = hash_logged_text(f, path), other_hash = hash_logged_text(f, other);
    uint32_t kinds = kinds_of(kind), exec_hash;

    if (f->exec_of)
        f->exec_of(who ? who->pid : 0, exec, f->cookie);
    exec_hash = (uint32_t) hash_logged_text(f, exec);
    autolock(&change_log->lock);
    detect_foreign_lines(change_log);
    if (was_logged(change_log, path_hash, exec_hash, kinds) && (!other || was_logged(change_log, other_hash, exec_hash, ~0U)))
        return;
    change_log_begin_line(&line, kind_names[kind], path, exec);
    if (other) {
        buf_add_str(&line, ",\"to\":");
        change_log_format_string(&line, other);
    }
    if (!change_log_end_line(change_log, &line))
        return;
    mark_logged(change_log, path_hash, exec_hash, kinds);
    if (other)
        mark_logged(change_log, other_hash, exec_hash, LOGGED_RENAMED_TO);
    change_log_rewrite_if_due(f, change_log);
}

void change_log_add_name(struct fence *f, enum change_log_kind kind, struct inode *dir, const char *name, const char *other,
                         const struct op_caller *who)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    atomic_fetch_add(&f->changes, 1);
    tree_path_of(f, dir, name, &path);
    log_change(f, kind, path.data, other, who);
}

/* A file without a name is not logged. Its last name may go while it is written: `log_mark` is then its index among the dead,
 * which must not be overwritten. */
static bool is_unlogged(struct fence *f, struct inode *inode, uint32_t mark)
{
    bool is_unlogged;

    tree_lock(f);
    is_unlogged = !inode_has(inode, INODE_DEAD) && inode->log_mark != mark;
    if (is_unlogged)
        inode->log_mark = mark;
    tree_unlock(f);
    return is_unlogged;
}

void change_log_add_inode(struct fence *f, enum change_log_kind kind, struct inode *inode, const struct op_caller *who)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    char exec[FENCE_EXEC_MAX] = "";

    atomic_fetch_add(&f->changes, 1);
    if (f->exec_of)
        f->exec_of(who->pid, exec, f->cookie);
    if (!is_unlogged(f, inode, (uint32_t) inode_number_of(kind + 16, exec, strlen(exec)) | 1))
        return;
    tree_path_of(f, inode, NULL, &path);
    log_change(f, kind, path.data ? path.data : "", NULL, who);
}

void change_log_format_hash(struct buf *line, int fd)
{
    autofree uint8_t *bytes = malloc(65536);
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx ctx;
    off_t at = 0;
    ssize_t n = 0;

    if (!bytes)
        return;
    sha256_init(&ctx);
    while ((n = pread(fd, bytes, 65536, at)) > 0) {
        sha256_update(&ctx, (size_t) n, bytes);
        at += n;
    }
    if (n < 0)
        return;
    sha256_digest(&ctx, sizeof(digest), digest);
    buf_add_str(line, ",\"sha256\":\"");
    for (size_t i = 0; i < sizeof(digest); i++)
        buf_addf(line, "%02x", digest[i]);
    buf_add_char(line, '"');
}

void change_log_add_copyup(struct fence *f, struct inode *inode, const struct stat *base, struct handle *from,
                           const char *pre_image)
{
    autodone(buf) struct buf path = BUF_EMPTY, line = BUF_EMPTY;
    char exec[FENCE_EXEC_MAX] = "";

    tree_path_of(f, inode, NULL, &path);
    if (f->exec_of)
        f->exec_of(0, exec, f->cookie);
    change_log_begin_line(&line, "copied-up", path.data ? path.data : "", exec);
    buf_addf(&line, ",\"base\":{\"ino\":%" PRIu64 ",\"size\":%" PRIu64 ",\"mtime_ns\":%" PRId64 ",\"mode\":%u",
             (uint64_t) base->st_ino, (uint64_t) base->st_size, clock_ns_of_timespec(base->st_mtim),
             (unsigned) base->st_mode & 07777);
    if (from && base->st_size <= HASH_MAX)
        change_log_format_hash(&line, from->fd);
    if (from && read_log_base_moved_on(f, inode, base))
        buf_add_str(&line, ",\"moved_on\":true");
    if (pre_image) {
        buf_add_str(&line, ",\"kept\":");
        change_log_format_string(&line, pre_image);
    }
    buf_add_char(&line, '}');
    autolock(&f->change_log->lock);
    detect_foreign_lines(f->change_log);
    change_log_end_line(f->change_log, &line);
}

int change_log_keep_pre_image(struct fence *f, int base_fd, char out[32])
{
    char path[64];
    int r;

    snprintf(out, 32, "%016" PRIx64 "%04" PRIx64, (uint64_t) clock_wall_ns(), atomic_fetch_add(&f->temp_counter, 1) & 0xffff);
    snprintf(path, sizeof(path), "pre/%s", out);
    autofd int fd = openat(f->meta_fd, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    r = copyup_content(base_fd, fd, INT64_MAX);
    if (r < 0)
        unlinkat(f->meta_fd, path, 0);
    return r;
}
