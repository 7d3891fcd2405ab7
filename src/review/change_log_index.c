#include "review/change_log_index.h"

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
#include "fence/change_log.h"
#include "fence/change_log_line.h"

/* ---- entries ---- */

static bool parse_hash(const struct buf *text, uint8_t out[CHANGE_LOG_INDEX_HASH_BYTES])
{
    if (text->len != 2 * (size_t) CHANGE_LOG_INDEX_HASH_BYTES)
        return false;
    for (size_t i = 0; i < CHANGE_LOG_INDEX_HASH_BYTES; i++) {
        unsigned byte;
        if (sscanf(text->data + 2 * i, "%2x", &byte) != 1)
            return false;
        out[i] = (uint8_t) byte;
    }
    return true;
}

static void entry_done(struct base_entry *entry)
{
    free(entry->path);
    free(entry->kept);
}

static struct base_entry *add_entry(struct change_log_index *log_index, const char *path)
{
    vec_room(&log_index->entries, &log_index->cap, log_index->count);
    struct base_entry *entry = &log_index->entries[log_index->count];
    *entry = (struct base_entry){ .path = xdup(path), .line = log_index->count };
    log_index->count++;
    return entry;
}

static void describe_base(struct base_entry *entry, const struct change_log_line *e)
{
    entry->base = BASE_ENTRY_PRESENT;
    entry->has_moved_on = e->has_moved_on;
    entry->has_hash = parse_hash(&e->hash, entry->hash);
    entry->size_bytes = e->size_bytes;
    entry->mtime_ns = e->mtime_ns;
    entry->mode = (mode_t) e->mode & 07777;
    /* Must be a name in one directory, whatever the line has. */
    if (e->kept.len > 0 && !strchr(e->kept.data, '/') && e->kept.data[0] != '.')
        entry->kept = xdup(e->kept.data);
}

/* Each line first makes its own entry; merge_same_paths() joins those of one path. */
static bool add_log_line(struct change_log_index *log_index, const struct change_log_line *e)
{
    const char *change = e->change.data, *path = e->path.data;
    struct base_entry *entry;

    if (!change || !path || !*path)
        return false;
    if (strcmp(change, "written") == 0 || strcmp(change, "attrs") == 0)
        return true;
    entry = add_entry(log_index, path);
    if (strcmp(change, "created") == 0 || strcmp(change, "linked") == 0)
        entry->base = BASE_ENTRY_ABSENT;
    else if (strcmp(change, "deleted") == 0 || strcmp(change, "renamed") == 0)
        entry->was_removed = true;
    else if (strcmp(change, "copied-up") == 0 && e->has_base) {
        describe_base(entry, e);
        entry->was_removed = true;
    } else if (strcmp(change, "applied") == 0) {
        if (e->has_base)
            describe_base(entry, e);
        else
            entry->base = BASE_ENTRY_ABSENT;
        entry->is_reset = true;
    } else if (strcmp(change, "dropped") == 0) {
        entry->is_reset = true;
        entry->since_ns = e->time_ns;
    } else {
        log_index->count--;
        entry_done(entry);
        return false;
    }
    /* A file was moved there: the log does not say whether it covered anything. */
    if (strcmp(change, "renamed") == 0 && e->to.len > 0)
        add_entry(log_index, e->to.data);
    return true;
}

bool change_log_index_parse_line(struct change_log_index *log_index, const char *line, size_t len)
{
    autodone(change_log_line) struct change_log_line e = CHANGE_LOG_LINE_EMPTY;

    return change_log_line_parse(&e, line, len) && add_log_line(log_index, &e);
}

static int by_path_and_line(const void *a, const void *b)
{
    const struct base_entry *x = a, *y = b;
    int r = strcmp(x->path, y->path);

    return r ? r : x->line < y->line ? -1 : 1;
}

/* `later` is about the same path. The first statement about the base is the valid one, because afterwards the agent no
 * longer saw the base; except if a copy states it exactly, which happens once, or if the change was applied. */
static void merge_entries(struct base_entry *entry, struct base_entry *later)
{
    bool is_dropped = later->is_reset && later->base == BASE_ENTRY_UNKNOWN;
    bool was_dropped = entry->is_reset && entry->base == BASE_ENTRY_UNKNOWN;
    bool was_removed = (entry->was_removed && !is_dropped) || later->was_removed;
    int64_t since_ns = later->since_ns ? later->since_ns : entry->since_ns;
    char *path = entry->path;

    if (later->is_reset || later->base == BASE_ENTRY_PRESENT || was_dropped) {
        free(entry->kept);
        *entry = *later;
        entry->path = path;
        later->kept = NULL;
    }
    entry->since_ns = since_ns;
    entry->was_removed = was_removed;
}

static void merge_same_paths(struct change_log_index *log_index)
{
    size_t kept = 0;

    if (log_index->count > 0)
        qsort(log_index->entries, log_index->count, sizeof(*log_index->entries), by_path_and_line);
    for (size_t i = 0; i < log_index->count; i++) {
        if (kept > 0 && strcmp(log_index->entries[kept - 1].path, log_index->entries[i].path) == 0) {
            merge_entries(&log_index->entries[kept - 1], &log_index->entries[i]);
            entry_done(&log_index->entries[i]);
        } else {
            log_index->entries[kept++] = log_index->entries[i];
        }
    }
    log_index->count = kept;
}

int change_log_index_load(int meta_fd, struct change_log_index *ret, struct err *err)
{
    autodone(change_log_index) struct change_log_index log_index = CHANGE_LOG_INDEX_EMPTY;
    autofd int fd = path_open_beneath(meta_fd, "changes", O_RDONLY | O_NONBLOCK, 0);
    autofile FILE *file = fd < 0 ? NULL : fdopen(fd, "re");
    autofree char *line = NULL;
    size_t cap = 0;
    ssize_t n;

    if (fd == -ENOENT) {
        *ret = CHANGE_LOG_INDEX_EMPTY;
        return 0;
    }
    if (!file)
        return err_errno(err, fd < 0 ? fd : -errno, "reading what the delta says of its changes");
    steal_fd(&fd);
    while ((n = getline(&line, &cap, file)) > 0) {
        if (line[n - 1] == '\n')
            change_log_index_parse_line(&log_index, line, (size_t) n - 1);
    }
    if (ferror(file))
        return err_errno(err, -errno, "reading what the delta says of its changes");
    merge_same_paths(&log_index);
    *ret = log_index;
    log_index = CHANGE_LOG_INDEX_EMPTY;
    return 0;
}

void change_log_index_done(struct change_log_index *log_index)
{
    for (size_t i = 0; i < log_index->count; i++)
        entry_done(&log_index->entries[i]);
    free(log_index->entries);
    *log_index = CHANGE_LOG_INDEX_EMPTY;
}

static int compare_path(const void *path, const void *entry)
{
    return strcmp(path, ((const struct base_entry *) entry)->path);
}

const struct base_entry *change_log_index_find(const struct change_log_index *log_index, const char *path)
{
    return log_index->count ? bsearch(path, log_index->entries, log_index->count, sizeof(*log_index->entries), compare_path)
                            : NULL;
}

/* ---- writing ---- */

static void add_base(struct buf *line, const struct base_entry *entry, uint64_t ino)
{
    buf_addf(line, ",\"base\":{\"ino\":%" PRIu64 ",\"size\":%" PRIu64 ",\"mtime_ns\":%" PRId64 ",\"mode\":%u", ino,
             entry->size_bytes, entry->mtime_ns, (unsigned) entry->mode & 07777);
    if (entry->has_hash) {
        buf_add_str(line, ",\"sha256\":\"");
        for (size_t i = 0; i < CHANGE_LOG_INDEX_HASH_BYTES; i++)
            buf_addf(line, "%02x", entry->hash[i]);
        buf_add_char(line, '"');
    }
    if (entry->has_moved_on)
        buf_add_str(line, ",\"moved_on\":true");
    if (entry->kept) {
        buf_add_str(line, ",\"kept\":");
        change_log_format_string(line, entry->kept);
    }
    buf_add_char(line, '}');
}

static void add_line(struct buf *line, const struct base_entry *entry, uint64_t ino)
{
    buf_addf(line, "{\"time_ns\":%" PRId64 ",\"change\":\"applied\",\"path\":", clock_wall_ns());
    change_log_format_string(line, entry->path);
    if (entry->base == BASE_ENTRY_PRESENT)
        add_base(line, entry, ino);
    buf_add_str(line, "}\n");
}

void change_log_index_add_line(struct buf *out, const struct base_entry *entry)
{
    add_line(out, entry, 0);
}

/* Locks the file, and checks that it still has the name: a fence that compacts it (fence/change_log_compact.h) takes the
 * same lock, and an addition to the old file would be lost. */
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

/* A full disk may have torn the previous line, so a newline comes first. */
int change_log_index_append(int meta_fd, const char *lines, size_t len)
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

int change_log_index_note_applied(int fd, const char *path, const struct stat *base, const uint8_t *hash)
{
    autodone(buf) struct buf line = BUF_EMPTY;
    struct base_entry entry = { .path = (char *) (uintptr_t) path, .base = base ? BASE_ENTRY_PRESENT : BASE_ENTRY_ABSENT };

    if (base) {
        entry.size_bytes = (uint64_t) base->st_size;
        entry.mtime_ns = (int64_t) base->st_mtim.tv_sec * CLOCK_NS_PER_SEC + base->st_mtim.tv_nsec;
        entry.mode = base->st_mode & 07777;
        entry.has_hash = hash;
        if (hash)
            memcpy(entry.hash, hash, sizeof(entry.hash));
    }
    add_line(&line, &entry, base ? (uint64_t) base->st_ino : 0);
    return fd_write_full(fd, line.data, line.len);
}

int change_log_index_hash(int fd, uint8_t out[CHANGE_LOG_INDEX_HASH_BYTES])
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
        if (at > CHANGE_LOG_INDEX_HASH_MAX)
            return -EFBIG;
    }
    if (n < 0)
        return (int) n;
    sha256_digest(&ctx, CHANGE_LOG_INDEX_HASH_BYTES, out);
    return 0;
}
