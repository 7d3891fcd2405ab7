#include "fence/record.h"

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
#include "fence/copyup.h"
#include "fence/drop.h"
#include "fence/inode.h"
#include "fence/record_int.h"
#include "fence/served.h"

#define HASH_MOST ((off_t) 64 << 20) /* larger files are told by size, time and number alone */

/*
 * What was told lately, so that a program that goes round in circles does not fill the disk with saying so: the same kind of change of
 * the same path by the same exec is told once, until another exec changes the path, the path leaves the delta, or somebody else writes
 * into the diary. Whoever reads it (review/change_log_index.c) learns nothing from the second. A path that is not here any more is told again.
 */
enum {
    TOLD_MADE = 1,
    TOLD_GONE = 2,
    TOLD_COME = 4, /* renamed to it */
    TOLD_WRITTEN = 8,
    TOLD_ATTRS = 16,
};

static const char *const kind_names[] = {
    [RECORD_CREATED] = "created", [RECORD_WRITTEN] = "written", [RECORD_ATTRS] = "attrs",
    [RECORD_DELETED] = "deleted", [RECORD_RENAMED] = "renamed", [RECORD_LINKED] = "linked",
};

int record_new(struct fence *f, struct record **ret_record)
{
    int fd = openat(f->meta_fd, RECORD_NAME, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -errno;
    *ret_record = xnew(struct record);
    (*ret_record)->fd = fd;
    record_gist_init(*ret_record);
    pthread_mutex_init(&(*ret_record)->lock, NULL);
    return 0;
}

void record_free(struct record *record)
{
    if (!record)
        return;
    record_gist_end(record);
    close(record->fd);
    free(record->told);
    pthread_mutex_destroy(&record->lock);
    free(record);
}

/* ---- told already ---- */

void record_forget_told(struct record *record)
{
    if (record->told)
        memset(record->told, 0, TOLD_SLOTS * sizeof(*record->told));
}

static uint32_t kinds_of(enum record_kind kind)
{
    switch (kind) {
    case RECORD_CREATED:
    case RECORD_LINKED:
        return TOLD_MADE;
    case RECORD_DELETED:
    case RECORD_RENAMED:
        return TOLD_GONE;
    case RECORD_WRITTEN:
        return TOLD_WRITTEN;
    case RECORD_ATTRS:
        return TOLD_ATTRS;
    }
    return 0;
}

static struct told *told_slot(struct record *record, uint64_t path)
{
    return &record->told[path % TOLD_SLOTS];
}

static bool was_told(struct record *record, uint64_t path, uint32_t exec, uint32_t kinds)
{
    const struct told *told = told_slot(record, path);

    return told->path == path && told->exec == exec && told->kinds & kinds;
}

static void note_told(struct record *record, uint64_t path, uint32_t exec, uint32_t kinds)
{
    struct told *told = told_slot(record, path);

    if (told->path != path || told->exec != exec)
        *told = (struct told){ .path = path, .exec = exec };
    told->kinds |= kinds;
}

/* ---- */

void record_clear(struct record *record)
{
    autolock(&record->lock);
    record_forget_told(record);
    record->cleared++;
    record->is_torn = false;
    if (ftruncate(record->fd, 0) < 0)
        return;
}

int record_dropped(struct record *record, const char *const *paths, size_t count)
{
    autolock(&record->lock);
    record_forget_told(record);
    return drop_tell(record->fd, paths, count);
}

/* May be called while the descriptor comes to stand for another file: that one is on disk as a whole. */
int record_sync(struct record *record)
{
    return fdatasync(record->fd) < 0 ? -errno : 0;
}

void record_add_string(struct buf *out, const char *s)
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
    record_add_string(line, path);
    if (*exec) {
        buf_add_str(line, ",\"exec\":");
        record_add_string(line, exec);
    }
}

/* A diary that can't be written must not stop the work it tells of. False: it was not, or not as a whole. Called with the lock. */
static bool end_line(struct record *record, struct buf *line)
{
    ssize_t n;

    buf_add_str(line, "}\n");
    /* Behind one that had no room as a whole. */
    n = writev(record->fd, (const struct iovec[]){ { (char[]){ '\n' }, record->is_torn }, { line->data, line->len } }, 2);
    if (n < 0 || (size_t) n != record->is_torn + line->len) {
        record->is_torn |= n > 0;
        record_forget_told(record);
        return false;
    }
    record->size += n;
    record->is_torn = false;
    return true;
}

/* Others have their say when what the sandbox did is applied: what was told before may have to be told once more. */
static void look_for_others(struct record *record)
{
    struct stat st;

    if (!record->told)
        record->told = xalloc(TOLD_SLOTS * sizeof(*record->told));
    if (fstat(record->fd, &st) < 0)
        st.st_size = -1;
    if (st.st_size != record->size)
        record_forget_told(record);
    record->size = st.st_size;
}

/* With a secret: whoever could find two paths that are one here could change the second unseen. */
static uint64_t hash_of(const struct fence *f, const char *text)
{
    return text ? inode_hash(f->secret, text, strlen(text)) : 0;
}

static void tell(struct fence *f, enum record_kind kind, const char *path, const char *other, const struct caller *who)
{
    struct record *record = f->record;
    autodone(buf) struct buf line = BUF_EMPTY;
    char exec[FENCE_EXEC_MAX] = "";
    uint64_t path_hash = hash_of(f, path), other_hash = hash_of(f, other);
    uint32_t kinds = kinds_of(kind), exec_hash;

    if (f->exec_of)
        f->exec_of(who ? who->pid : 0, exec, f->cookie);
    exec_hash = (uint32_t) hash_of(f, exec);
    autolock(&record->lock);
    look_for_others(record);
    if (was_told(record, path_hash, exec_hash, kinds) && (!other || was_told(record, other_hash, exec_hash, ~0U)))
        return;
    begin_line(&line, kind_names[kind], path, exec);
    if (other) {
        buf_add_str(&line, ",\"to\":");
        record_add_string(&line, other);
    }
    if (!end_line(record, &line))
        return;
    note_told(record, path_hash, exec_hash, kinds);
    if (other)
        note_told(record, other_hash, exec_hash, TOLD_COME);
    record_gist_consider(f, record);
}

void record_name(struct fence *f, enum record_kind kind, struct inode *dir, const char *name, const char *other,
                 const struct caller *who)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    atomic_fetch_add(&f->changes, 1);
    tree_path_of(f, dir, name, &path);
    tell(f, kind, path.data, other, who);
}

static uint32_t exec_mark(struct fence *f, enum record_kind kind, const struct caller *who)
{
    char exec[FENCE_EXEC_MAX] = "";

    if (f->exec_of)
        f->exec_of(who->pid, exec, f->cookie);
    return (uint32_t) inode_number_of(kind + 16, exec, strlen(exec)) | 1;
}

/* A file without a name is no change to tell of. Its last name may go while it is written: what is noted then is its place among
 * the dead, which nobody may overwrite. */
static bool is_news(struct fence *f, struct inode *inode, uint32_t mark)
{
    bool is_news;

    tree_lock(f);
    is_news = !inode_has(inode, INODE_DEAD) && inode->noted != mark;
    if (is_news)
        inode->noted = mark;
    tree_unlock(f);
    return is_news;
}

void record_inode(struct fence *f, enum record_kind kind, struct inode *inode, const struct caller *who)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    atomic_fetch_add(&f->changes, 1);
    if (!is_news(f, inode, exec_mark(f, kind, who)))
        return;
    tree_path_of(f, inode, NULL, &path);
    tell(f, kind, path.data ? path.data : "", NULL, who);
}

void record_add_hash(struct buf *line, int fd)
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

void record_copyup(struct fence *f, struct inode *inode, const struct stat *base, struct handle *from, const char *pre_image)
{
    autodone(buf) struct buf path = BUF_EMPTY, line = BUF_EMPTY;
    char exec[FENCE_EXEC_MAX] = "";

    tree_path_of(f, inode, NULL, &path);
    if (f->exec_of)
        f->exec_of(0, exec, f->cookie);
    begin_line(&line, "copied-up", path.data ? path.data : "", exec);
    buf_addf(&line, ",\"base\":{\"ino\":%" PRIu64 ",\"size\":%" PRIu64 ",\"mtime_ns\":%" PRId64 ",\"mode\":%u",
             (uint64_t) base->st_ino, (uint64_t) base->st_size, mtime_ns(base), (unsigned) base->st_mode & 07777);
    if (from && base->st_size <= HASH_MOST)
        record_add_hash(&line, from->fd);
    if (from && served_has_moved_on(f, inode, base))
        buf_add_str(&line, ",\"moved_on\":true");
    if (pre_image) {
        buf_add_str(&line, ",\"kept\":");
        record_add_string(&line, pre_image);
    }
    buf_add_char(&line, '}');
    autolock(&f->record->lock);
    look_for_others(f->record);
    end_line(f->record, &line);
}

int record_keep_pre_image(struct fence *f, int base_fd, char out[32])
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
