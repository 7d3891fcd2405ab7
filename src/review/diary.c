#include "review/diary.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/record.h"
#include "fence/record_line.h"

/* ---- pages ---- */

static bool parse_hash(const struct buf *text, uint8_t out[DIARY_HASH_BYTES])
{
    if (text->len != 2 * (size_t) DIARY_HASH_BYTES)
        return false;
    for (size_t i = 0; i < DIARY_HASH_BYTES; i++) {
        unsigned byte;
        if (sscanf(text->data + 2 * i, "%2x", &byte) != 1)
            return false;
        out[i] = (uint8_t) byte;
    }
    return true;
}

static void page_done(struct diary_page *page)
{
    free(page->path);
    free(page->kept);
}

static struct diary_page *add_page(struct diary *diary, const char *path)
{
    vec_room(&diary->pages, &diary->cap, diary->count);
    struct diary_page *page = &diary->pages[diary->count];
    *page = (struct diary_page){ .path = xdup(path), .line = diary->count };
    diary->count++;
    return page;
}

static void describe_base(struct diary_page *page, const struct record_line *e)
{
    page->base = DIARY_BASE_PRESENT;
    page->has_moved_on = e->has_moved_on;
    page->has_hash = parse_hash(&e->hash, page->hash);
    page->size_bytes = e->size_bytes;
    page->mtime_ns = e->mtime_ns;
    page->mode = (mode_t) e->mode & 07777;
    /* A name in one directory, whatever the line says. */
    if (e->kept.len > 0 && !strchr(e->kept.data, '/') && e->kept.data[0] != '.')
        page->kept = xdup(e->kept.data);
}

/* What each line tells is a page of its own first; join() folds those of one path. */
static bool take_entry(struct diary *diary, const struct record_line *e)
{
    const char *change = e->change.data, *path = e->path.data;
    struct diary_page *page;

    if (!change || !path || !*path)
        return false;
    if (strcmp(change, "written") == 0 || strcmp(change, "attrs") == 0)
        return true;
    page = add_page(diary, path);
    if (strcmp(change, "created") == 0 || strcmp(change, "linked") == 0)
        page->base = DIARY_BASE_ABSENT;
    else if (strcmp(change, "deleted") == 0 || strcmp(change, "renamed") == 0)
        page->was_removed = true;
    else if (strcmp(change, "copied-up") == 0 && e->has_base) {
        describe_base(page, e);
        page->was_removed = true;
    } else if (strcmp(change, "applied") == 0) {
        if (e->has_base)
            describe_base(page, e);
        else
            page->base = DIARY_BASE_ABSENT;
        page->is_reset = true;
    } else if (strcmp(change, "dropped") == 0) {
        page->is_reset = true;
        page->since_ns = e->time_ns;
    } else {
        diary->count--;
        page_done(page);
        return false;
    }
    /* Something moved there: whether it covered anything is not told. */
    if (strcmp(change, "renamed") == 0 && e->to.len > 0)
        add_page(diary, e->to.data);
    return true;
}

bool diary_take_line(struct diary *diary, const char *line, size_t len)
{
    autodone(record_line) struct record_line e = RECORD_LINE_EMPTY;

    return record_line_parse(&e, line, len) && take_entry(diary, &e);
}

static int by_path_and_line(const void *a, const void *b)
{
    const struct diary_page *x = a, *y = b;
    int r = strcmp(x->path, y->path);

    return r ? r : x->line < y->line ? -1 : 1;
}

/* Later than `page`, of the same path. The first word about what the base had is the right one, because from then on the agent no
 * longer saw it; except where a copy says it exactly, which happens once, or where it was applied. */
static void fold(struct diary_page *page, struct diary_page *later)
{
    bool is_dropped = later->is_reset && later->base == DIARY_BASE_UNKNOWN;
    bool was_dropped = page->is_reset && page->base == DIARY_BASE_UNKNOWN;
    bool was_removed = (page->was_removed && !is_dropped) || later->was_removed;
    int64_t since_ns = later->since_ns ? later->since_ns : page->since_ns;
    char *path = page->path;

    if (later->is_reset || later->base == DIARY_BASE_PRESENT || was_dropped) {
        free(page->kept);
        *page = *later;
        page->path = path;
        later->kept = NULL;
    }
    page->since_ns = since_ns;
    page->was_removed = was_removed;
}

static void join(struct diary *diary)
{
    size_t kept = 0;

    if (diary->count > 0)
        qsort(diary->pages, diary->count, sizeof(*diary->pages), by_path_and_line);
    for (size_t i = 0; i < diary->count; i++) {
        if (kept > 0 && strcmp(diary->pages[kept - 1].path, diary->pages[i].path) == 0) {
            fold(&diary->pages[kept - 1], &diary->pages[i]);
            page_done(&diary->pages[i]);
        } else {
            diary->pages[kept++] = diary->pages[i];
        }
    }
    diary->count = kept;
}

int diary_load(int meta_fd, struct diary *ret, struct err *err)
{
    autodone(diary) struct diary diary = DIARY_EMPTY;
    autofd int fd = path_open_beneath(meta_fd, "changes", O_RDONLY | O_NONBLOCK, 0);
    autofile FILE *file = fd < 0 ? NULL : fdopen(fd, "re");
    autofree char *line = NULL;
    size_t cap = 0;
    ssize_t n;

    if (fd == -ENOENT) {
        *ret = DIARY_EMPTY;
        return 0;
    }
    if (!file)
        return err_errno(err, fd < 0 ? fd : -errno, "reading what the delta says of its changes");
    steal_fd(&fd);
    while ((n = getline(&line, &cap, file)) > 0) {
        if (line[n - 1] == '\n')
            diary_take_line(&diary, line, (size_t) n - 1);
    }
    if (ferror(file))
        return err_errno(err, -errno, "reading what the delta says of its changes");
    join(&diary);
    *ret = diary;
    diary = DIARY_EMPTY;
    return 0;
}

void diary_done(struct diary *diary)
{
    for (size_t i = 0; i < diary->count; i++)
        page_done(&diary->pages[i]);
    free(diary->pages);
    *diary = DIARY_EMPTY;
}

static int compare_path(const void *path, const void *page)
{
    return strcmp(path, ((const struct diary_page *) page)->path);
}

const struct diary_page *diary_find(const struct diary *diary, const char *path)
{
    return diary->count ? bsearch(path, diary->pages, diary->count, sizeof(*diary->pages), compare_path) : NULL;
}

/* ---- writing ---- */

static void add_base(struct buf *line, const struct diary_page *page, uint64_t ino)
{
    buf_addf(line, ",\"base\":{\"ino\":%" PRIu64 ",\"size\":%" PRIu64 ",\"mtime_ns\":%" PRId64 ",\"mode\":%u", ino,
             page->size_bytes, page->mtime_ns, (unsigned) page->mode & 07777);
    if (page->has_hash) {
        buf_add_str(line, ",\"sha256\":\"");
        for (size_t i = 0; i < DIARY_HASH_BYTES; i++)
            buf_addf(line, "%02x", page->hash[i]);
        buf_add_char(line, '"');
    }
    if (page->has_moved_on)
        buf_add_str(line, ",\"moved_on\":true");
    if (page->kept) {
        buf_add_str(line, ",\"kept\":");
        record_add_string(line, page->kept);
    }
    buf_add_char(line, '}');
}

static void add_line(struct buf *line, const struct diary_page *page, uint64_t ino)
{
    buf_addf(line, "{\"time_ns\":%" PRId64 ",\"change\":\"applied\",\"path\":", clock_wall_ns());
    record_add_string(line, page->path);
    if (page->base == DIARY_BASE_PRESENT)
        add_base(line, page, ino);
    buf_add_str(line, "}\n");
}

void diary_add_line(struct buf *out, const struct diary_page *page)
{
    add_line(out, page, 0);
}

/* Locked, and the one that has the name: a fence that writes the gist in its place (fence/gist.h) takes the same lock, and what is
 * added to the one before it would be lost. */
static int open_to_append(int meta_fd, struct stat *ret)
{
    for (;;) {
        autofd int fd = path_open_beneath(meta_fd, "changes", O_RDWR | O_CREAT | O_APPEND, 0600);

        if (fd < 0)
            return fd;
        if (flock(fd, LOCK_EX) < 0 || fstat(fd, ret) < 0)
            return -errno;
        if (ret->st_nlink > 0)
            return steal_fd(&fd);
    }
}

/* The line before it may be torn, by a disk that was full: a line of its own then. */
int diary_append(int meta_fd, const char *lines, size_t len)
{
    struct stat st = { 0 };
    autofd int fd = open_to_append(meta_fd, &st);
    char last = '\n';
    int r;

    if (fd < 0)
        return fd;
    if (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) < 0)
        return -errno;
    r = last == '\n' ? 0 : fd_write_full(fd, "\n", 1);
    if (r == 0)
        r = fd_write_full(fd, lines, len);
    if (r == 0 && fdatasync(fd) < 0)
        r = -errno;
    return r;
}

int diary_note_applied(int fd, const char *path, const struct stat *base, const uint8_t *hash)
{
    autodone(buf) struct buf line = BUF_EMPTY;
    struct diary_page page = { .path = (char *) (uintptr_t) path, .base = base ? DIARY_BASE_PRESENT : DIARY_BASE_ABSENT };

    if (base) {
        page.size_bytes = (uint64_t) base->st_size;
        page.mtime_ns = (int64_t) base->st_mtim.tv_sec * CLOCK_NS_PER_SEC + base->st_mtim.tv_nsec;
        page.mode = base->st_mode & 07777;
        page.has_hash = hash;
        if (hash)
            memcpy(page.hash, hash, sizeof(page.hash));
    }
    add_line(&line, &page, base ? (uint64_t) base->st_ino : 0);
    return fd_write_full(fd, line.data, line.len);
}

int diary_hash(int fd, uint8_t out[DIARY_HASH_BYTES])
{
    autofree uint8_t *bytes = malloc(65536);
    struct sha256_ctx ctx;
    off_t at = 0;
    ssize_t n;

    if (!bytes)
        return -ENOMEM;
    sha256_init(&ctx);
    while ((n = fd_pread_full(fd, bytes, 65536, at)) > 0) {
        sha256_update(&ctx, (size_t) n, bytes);
        at += n;
        if (at > DIARY_HASH_MOST)
            return -EFBIG;
    }
    if (n < 0)
        return (int) n;
    sha256_digest(&ctx, DIARY_HASH_BYTES, out);
    return 0;
}
