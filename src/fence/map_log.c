#include "fence/map_log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"

#define BLOCK_LINES 512
#define CAP_MIN 64

static size_t line_bytes(const struct map_log *l)
{
    return l->words * sizeof(uint64_t);
}

/* ---- the file ---- */

int map_log_open(struct map_log *l, int dirfd, const char *name)
{
    autofd int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat st;

    assert(l->words <= MAP_LOG_WORDS_MAX);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    l->dirfd = dirfd;
    l->name = name;
    l->count = (uint64_t) st.st_size / line_bytes(l);
    l->fd = steal_fd(&fd);
    return 0;
}

void map_log_close(struct map_log *l)
{
    map_log_clear_table(l);
    close(l->fd);
}

int map_log_read(struct map_log *l)
{
    uint64_t some[BLOCK_LINES * MAP_LOG_WORDS_MAX];
    size_t size = line_bytes(l);
    off_t at = 0;
    ssize_t got;

    while ((got = pread(l->fd, some, BLOCK_LINES * size, at)) >= (ssize_t) size) {
        size_t count = (size_t) got / size;
        for (size_t i = 0; i < count; i++) {
            if (some[i * l->words])
                map_log_put(l, &some[i * l->words]);
        }
        at += (off_t) (count * size);
    }
    return got < 0 ? -errno : 0;
}

bool map_log_append(struct map_log *l, const uint64_t *line)
{
    size_t size = line_bytes(l);

    if (pwrite(l->fd, line, size, (off_t) (l->count * size)) != (ssize_t) size)
        return false;
    l->count++;
    return true;
}

static int map_log_write_table(const struct map_log *l, int fd)
{
    uint64_t some[BLOCK_LINES * MAP_LOG_WORDS_MAX];
    const uint64_t *line = NULL;
    size_t slot = 0, n;
    int r = 0;

    do {
        for (n = 0; n < BLOCK_LINES && (line = map_log_next(l, &slot)); n++)
            memcpy(&some[n * l->words], line, line_bytes(l));
        r = fd_write_full(fd, some, n * line_bytes(l));
    } while (r == 0 && line);
    return r;
}

int map_log_replace(struct map_log *l, const uint64_t *first, const struct buf *lines)
{
    struct file_pending file = FILE_PENDING_NONE;
    char moment[32];
    int r = file_replace_begin(l->dirfd, l->name, 0600, &file);

    snprintf(moment, sizeof(moment), "log-%s", l->name);
    if (r == 0 && first)
        r = fd_write_full(file.fd, first, line_bytes(l));
    if (r == 0)
        r = lines ? fd_write_full(file.fd, lines->data, lines->len) : map_log_write_table(l, file.fd);
    fault(moment);
    if (r == 0)
        r = file_replace_commit_opened(&file, l->fd);
    file_replace_abort(&file);
    if (r == 0)
        l->count = (first ? 1 : 0) + (lines ? lines->len / line_bytes(l) : l->value_count);
    return r;
}

/* ---- the table ---- */

static bool line_has_value(const struct map_log *l, const uint64_t *line)
{
    return line[0] && line[l->void_at] != l->void_word;
}

/* The key is mixed because some keys are hashes and others consecutive. */
static uint64_t *slot_of(const struct map_log *l, uint64_t key)
{
    size_t i = (key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (l->cap - 1);

    while (l->slots[i * l->words] && l->slots[i * l->words] != key)
        i = (i + 1) & (l->cap - 1);
    return &l->slots[i * l->words];
}

/* Void lines are dropped, so the table grows with what is valid and not with what ever was. */
static void map_log_grow_table(struct map_log *l)
{
    struct map_log old = *l;
    const uint64_t *line;

    l->cap = CAP_MIN;
    while (l->cap < l->value_count * 4)
        l->cap *= 2;
    l->slots = xalloc(l->cap * line_bytes(l));
    l->used = l->value_count;
    for (size_t slot = 0; (line = map_log_next(&old, &slot));)
        memcpy(slot_of(l, line[0]), line, line_bytes(l));
    free(old.slots);
}

bool map_log_put(struct map_log *l, const uint64_t *line)
{
    uint64_t *slot;

    if (l->used * 2 >= l->cap)
        map_log_grow_table(l);
    slot = slot_of(l, line[0]);
    if (memcmp(slot, line, line_bytes(l)) == 0)
        return false;
    l->used += !slot[0];
    l->value_count += (size_t) line_has_value(l, line) - (size_t) line_has_value(l, slot);
    memcpy(slot, line, line_bytes(l));
    return true;
}

const uint64_t *map_log_find(const struct map_log *l, uint64_t key)
{
    const uint64_t *slot = l->cap ? slot_of(l, key) : NULL;

    return slot && line_has_value(l, slot) ? slot : NULL;
}

const uint64_t *map_log_next(const struct map_log *l, size_t *slot)
{
    while (*slot < l->cap) {
        const uint64_t *line = &l->slots[(*slot)++ * l->words];
        if (line_has_value(l, line))
            return line;
    }
    return NULL;
}

void map_log_clear_table(struct map_log *l)
{
    free(l->slots);
    l->slots = NULL;
    l->cap = l->used = l->value_count = 0;
}
