#include "fence/change_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "fence/change_log_int.h"
#include "fence/copyup.h"
#include "fence/inode.h"
#include "fence/read_log.h"
#include "fence/revert.h"

#define HASH_MAX ((off_t) 64 << 20) /* larger files are recorded without a hash */

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

int change_log_new(struct fence *f, struct change_log **ret_change_log)
{
    int fd = openat(f->meta_fd, CHANGE_LOG_NAME, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -errno;
    *ret_change_log = xnew(struct change_log);
    (*ret_change_log)->fd = fd;
    change_log_rewrite_init(*ret_change_log);
    pthread_mutex_init(&(*ret_change_log)->lock, NULL);
    return 0;
}

void change_log_free(struct change_log *change_log)
{
    if (!change_log)
        return;
    change_log_rewrite_end(change_log);
    close(change_log->fd);
    free(change_log->logged);
    pthread_mutex_destroy(&change_log->lock);
    free(change_log);
}

/* ---- recently logged ---- */

void change_log_forget_logged(struct change_log *change_log)
{
    if (change_log->logged)
        memset(change_log->logged, 0, LOGGED_SLOTS * sizeof(*change_log->logged));
}

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

static void begin_line(struct buf *line, const char *what, const char *path, const char *exec)
{
    buf_addf(line, "{\"time_ns\":%" PRId64 ",\"change\":\"%s\",\"path\":", clock_wall_ns(), what);
    change_log_format_string(line, path);
    if (*exec) {
        buf_add_str(line, ",\"exec\":");
        change_log_format_string(line, exec);
    }
}

/* Failure to write the log must not stop the work. Returns false if the line was not written in full. [locked] */
static bool end_line(struct change_log *change_log, struct buf *line)
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
static uint64_t hash_of(const struct fence *f, const char *text)
{
    return text ? inode_hash(f->hash_secret, text, strlen(text)) : 0;
}

static void log_change(struct fence *f, enum change_log_kind kind, const char *path, const char *other,
                       const struct op_caller *who)
{
    struct change_log *change_log = f->change_log;
    autodone(buf) struct buf line = BUF_EMPTY;
    char exec[FENCE_EXEC_MAX] = "";
    uint64_t path_hash = hash_of(f, path), other_hash = hash_of(f, other);
    uint32_t kinds = kinds_of(kind), exec_hash;

    if (f->exec_of)
        f->exec_of(who ? who->pid : 0, exec, f->cookie);
    exec_hash = (uint32_t) hash_of(f, exec);
    autolock(&change_log->lock);
    detect_foreign_lines(change_log);
    if (was_logged(change_log, path_hash, exec_hash, kinds) && (!other || was_logged(change_log, other_hash, exec_hash, ~0U)))
        return;
    begin_line(&line, kind_names[kind], path, exec);
    if (other) {
        buf_add_str(&line, ",\"to\":");
        change_log_format_string(&line, other);
    }
    if (!end_line(change_log, &line))
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

static uint32_t exec_mark(struct fence *f, enum change_log_kind kind, const struct op_caller *who)
{
    char exec[FENCE_EXEC_MAX] = "";

    if (f->exec_of)
        f->exec_of(who->pid, exec, f->cookie);
    return (uint32_t) inode_number_of(kind + 16, exec, strlen(exec)) | 1;
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

    atomic_fetch_add(&f->changes, 1);
    if (!is_unlogged(f, inode, exec_mark(f, kind, who)))
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

static int64_t mtime_ns(const struct stat *st)
{
    return (int64_t) st->st_mtim.tv_sec * CLOCK_NS_PER_SEC + st->st_mtim.tv_nsec;
}

void change_log_add_copyup(struct fence *f, struct inode *inode, const struct stat *base, struct handle *from,
                           const char *pre_image)
{
    autodone(buf) struct buf path = BUF_EMPTY, line = BUF_EMPTY;
    char exec[FENCE_EXEC_MAX] = "";

    tree_path_of(f, inode, NULL, &path);
    if (f->exec_of)
        f->exec_of(0, exec, f->cookie);
    begin_line(&line, "copied-up", path.data ? path.data : "", exec);
    buf_addf(&line, ",\"base\":{\"ino\":%" PRIu64 ",\"size\":%" PRIu64 ",\"mtime_ns\":%" PRId64 ",\"mode\":%u",
             (uint64_t) base->st_ino, (uint64_t) base->st_size, mtime_ns(base), (unsigned) base->st_mode & 07777);
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
    end_line(f->change_log, &line);
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
