#include "fence/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "fence/copyup.h"
#include "fence/drop.h"
#include "fence/inode.h"

#define HASH_MOST ((off_t) 64 << 20) /* larger files are told by size, time and number alone */

struct record {
    int fd; /* owned; O_APPEND */
};

static const char *const kind_names[] = {
    [RECORD_CREATED] = "created", [RECORD_WRITTEN] = "written", [RECORD_ATTRS] = "attrs",
    [RECORD_DELETED] = "deleted", [RECORD_RENAMED] = "renamed", [RECORD_LINKED] = "linked",
};

int record_new(struct fence *f, struct record **ret_record)
{
    int fd = openat(f->meta_fd, "changes", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -errno;
    *ret_record = xnew(struct record);
    (*ret_record)->fd = fd;
    return 0;
}

void record_free(struct record *record)
{
    if (!record)
        return;
    close(record->fd);
    free(record);
}

void record_clear(struct record *record)
{
    if (ftruncate(record->fd, 0) < 0)
        return;
}

int record_dropped(struct record *record, const char *const *paths, size_t count)
{
    return drop_tell(record->fd, paths, count);
}

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

static void begin_line(struct fence *f, struct buf *line, const char *what, const char *path, const struct caller *who)
{
    char exec[FENCE_EXEC_MAX] = "";

    buf_addf(line, "{\"time_ns\":%" PRId64 ",\"change\":\"%s\",\"path\":", clock_wall_ns(), what);
    record_add_string(line, path);
    if (f->exec_of)
        f->exec_of(who ? who->pid : 0, exec, f->cookie);
    if (*exec) {
        buf_add_str(line, ",\"exec\":");
        record_add_string(line, exec);
    }
}

/* A diary that can't be written must not stop the work it tells of. */
static void end_line(struct fence *f, struct buf *line)
{
    buf_add_str(line, "}\n");
    if (write(f->record->fd, line->data, line->len) < 0)
        return;
}

void record_name(struct fence *f, enum record_kind kind, struct inode *dir, const char *name, const char *other,
                 const struct caller *who)
{
    autodone(buf) struct buf path = BUF_EMPTY, line = BUF_EMPTY;

    atomic_fetch_add(&f->changes, 1);
    tree_path_of(f, dir, name, &path);
    begin_line(f, &line, kind_names[kind], path.data, who);
    if (other) {
        buf_add_str(&line, ",\"to\":");
        record_add_string(&line, other);
    }
    end_line(f, &line);
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
    autodone(buf) struct buf path = BUF_EMPTY, line = BUF_EMPTY;

    atomic_fetch_add(&f->changes, 1);
    if (!is_news(f, inode, exec_mark(f, kind, who)))
        return;
    tree_path_of(f, inode, NULL, &path);
    begin_line(f, &line, kind_names[kind], path.data ? path.data : "", who);
    end_line(f, &line);
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

static bool has_moved_on(struct handle *from, const struct stat *base)
{
    int64_t served_ns = atomic_load(&from->served_ns);

    return served_ns && (served_ns != mtime_ns(base) || atomic_load(&from->served_size) != base->st_size);
}

void record_copyup(struct fence *f, struct inode *inode, const struct stat *base, struct handle *from, const char *pre_image)
{
    autodone(buf) struct buf path = BUF_EMPTY, line = BUF_EMPTY;

    tree_path_of(f, inode, NULL, &path);
    begin_line(f, &line, "copied-up", path.data ? path.data : "", NULL);
    buf_addf(&line, ",\"base\":{\"ino\":%" PRIu64 ",\"size\":%" PRIu64 ",\"mtime_ns\":%" PRId64 ",\"mode\":%u",
             (uint64_t) base->st_ino, (uint64_t) base->st_size, mtime_ns(base), (unsigned) base->st_mode & 07777);
    if (from && base->st_size <= HASH_MOST)
        record_add_hash(&line, from->fd);
    if (from && has_moved_on(from, base))
        buf_add_str(&line, ",\"moved_on\":true");
    if (pre_image) {
        buf_add_str(&line, ",\"kept\":");
        record_add_string(&line, pre_image);
    }
    buf_add_char(&line, '}');
    end_line(f, &line);
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
