#include "review/diff_range.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "review/blob.h"

#define PIECE ((size_t) 256 << 10)
#define CONTEXT 3 /* lines, as in hunks */

struct diff_range_search {
    int was_fd, now_fd; /* borrowed */
    struct diff_range *out;
    char *was, *now;     /* owned: pieces of both */
    uint64_t line_start; /* of the first line that differs */
};

static int read_file_at(int fd, uint64_t at, char *bytes, size_t len)
{
    ssize_t n = fd_pread_full(fd, bytes, len, (off_t) at);

    if (n < 0)
        return (int) n;
    return (size_t) n == len ? 0 : -ESTALE;
}

static int read_pieces(struct diff_range_search *f, uint64_t was_at, uint64_t now_at, size_t len)
{
    int r = read_file_at(f->was_fd, was_at, f->was, len);

    return r < 0 ? r : read_file_at(f->now_fd, now_at, f->now, len);
}

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- from the start ---- */

static size_t same_from_front(const char *a, const char *b, size_t len)
{
    size_t n = 0;

    if (memcmp(a, b, len) == 0)
        return len;
    while (a[n] == b[n])
        n++;
    return n;
}

/* The offsets of the line being read and of the lines before it. */
struct line_trail {
    uint64_t starts[CONTEXT + 1];
    uint64_t count; /* lines begun */
};

static void track_lines(struct line_trail *trail, const char *bytes, size_t len, uint64_t at)
{
    const char *end = bytes + len;

    for (const char *p = bytes; p < end && (p = memchr(p, '\n', (size_t) (end - p))); p++)
        trail->starts[trail->count++ % (CONTEXT + 1)] = at + (uint64_t) (p - bytes) + 1;
}

static int find_start(struct diff_range_search *f)
{
    uint64_t size = smaller_of(f->out->was_size, f->out->now_size);
    struct line_trail trail = { .starts = { 0 }, .count = 1 };

    for (uint64_t at = 0; at < size;) {
        size_t len = (size_t) smaller_of(size - at, PIECE), same;
        int r = read_pieces(f, at, at, len);
        if (r < 0)
            return r;
        same = same_from_front(f->was, f->now, len);
        track_lines(&trail, f->was, same, at);
        at += same;
        if (same < len)
            break;
    }
    uint64_t kept = smaller_of(trail.count, CONTEXT + 1);
    f->line_start = trail.starts[(trail.count - 1) % (CONTEXT + 1)];
    f->out->at = trail.starts[(trail.count - kept) % (CONTEXT + 1)];
    f->out->lines_before = trail.count - kept;
    return 0;
}

/* ---- from the end ---- */

static size_t same_from_end(const char *a, const char *b, size_t len)
{
    size_t n = 0;

    while (n < len && a[len - 1 - n] == b[len - 1 - n])
        n++;
    return n;
}

/* Counts the equal bytes at the end. */
static int find_tail(struct diff_range_search *f, uint64_t *ret)
{
    uint64_t most = smaller_of(f->out->was_size, f->out->now_size) - f->line_start, tail = 0;

    while (tail < most) {
        size_t len = (size_t) smaller_of(most - tail, PIECE), same;
        int r = read_pieces(f, f->out->was_size - tail - len, f->out->now_size - tail - len, len);
        if (r < 0)
            return r;
        same = same_from_end(f->was, f->now, len);
        tail += same;
        if (same < len)
            break;
    }
    *ret = tail;
    return 0;
}

/* The first line of the tail may be the second half of a line that differs; the next lines are the context of a hunk. */
static int find_end(struct diff_range_search *f, uint64_t tail, uint64_t *ret)
{
    unsigned lines = 0;

    for (uint64_t at = f->out->was_size - tail; at < f->out->was_size;) {
        size_t len = (size_t) smaller_of(f->out->was_size - at, PIECE);
        int r = read_file_at(f->was_fd, at, f->was, len);
        if (r < 0)
            return r;
        for (const char *p = f->was, *end = p + len; p < end && (p = memchr(p, '\n', (size_t) (end - p))); p++) {
            if (++lines <= CONTEXT)
                continue;
            *ret = at + (uint64_t) (p - f->was) + 1;
            return 0;
        }
        at += len;
    }
    *ret = f->out->was_size;
    return 0;
}

/* ---- both ---- */

static int read_range(int fd, uint64_t from, uint64_t to, struct buf *out)
{
    size_t len = (size_t) (to - from);
    int r;

    buf_room(out, len + 1);
    r = read_file_at(fd, from, out->data, len);
    if (r == 0) {
        out->len = len;
        out->data[len] = 0;
    }
    return r;
}

static int find_range(struct diff_range_search *f, uint64_t most)
{
    struct diff_range *m = f->out;
    uint64_t tail = 0, end = 0, now_end;
    int r = find_start(f);

    if (r == 0)
        r = find_tail(f, &tail);
    if (r == 0)
        r = find_end(f, tail, &end);
    if (r < 0)
        return r;
    now_end = m->now_size - (m->was_size - end);
    if (end - m->at > most || now_end - m->at > most)
        return 1;
    r = read_range(f->was_fd, m->at, end, &m->was);
    return r == 0 ? read_range(f->now_fd, m->at, now_end, &m->now) : r;
}

int diff_range_find(int was_fd, int now_fd, uint64_t most, struct diff_range *ret)
{
    struct diff_range_search f = { .was_fd = was_fd, .now_fd = now_fd, .out = ret };
    struct stat was, now;
    int r;

    *ret = DIFF_RANGE_NONE;
    if (fstat(was_fd, &was) < 0 || fstat(now_fd, &now) < 0)
        return -errno;
    ret->was_size = (uint64_t) was.st_size;
    ret->now_size = (uint64_t) now.st_size;
    if (ret->was_size > DIFF_RANGE_FILE_MAX || ret->now_size > DIFF_RANGE_FILE_MAX)
        return 1;
    f.was = xalloc(PIECE);
    f.now = xalloc(PIECE);
    r = find_range(&f, most);
    free(f.was);
    free(f.now);
    if (r != 0)
        diff_range_done(ret);
    return r;
}

void diff_range_done(struct diff_range *range)
{
    buf_done(&range->was);
    buf_done(&range->now);
    *range = DIFF_RANGE_NONE;
}

/* ---- the hash ---- */

struct assembly {
    const struct diff_range *range;
    int was_fd;
};

/* Reads from the new text, which consists of the part before the range, the range, and the part after it. */
static int read_assembled(uint64_t at, char *bytes, size_t len, void *cookie)
{
    const struct assembly *a = cookie;
    const struct diff_range *m = a->range;
    uint64_t end = m->at + m->now.len;

    while (len > 0) {
        size_t n = len;
        int r = 0;
        if (at < m->at) {
            n = (size_t) smaller_of(len, m->at - at);
            r = read_file_at(a->was_fd, at, bytes, n);
        } else if (at < end) {
            n = (size_t) smaller_of(len, end - at);
            memcpy(bytes, m->now.data + (at - m->at), n);
        } else {
            r = read_file_at(a->was_fd, at - m->now.len + m->was.len, bytes, n);
        }
        if (r < 0)
            return r;
        at += n;
        bytes += n;
        len -= n;
    }
    return 0;
}

int diff_range_hash(const struct diff_range *range, int was_fd, struct sha256_ctx *sha)
{
    struct assembly a = { range, was_fd };

    return blob_hash_from(range->now_size, read_assembled, &a, sha);
}
