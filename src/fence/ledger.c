#include "fence/ledger.h"

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
#define CAP_LEAST 64

static size_t line_bytes(const struct ledger *l)
{
    return l->words * sizeof(uint64_t);
}

/* ---- the file ---- */

int ledger_open(struct ledger *l, int dirfd, const char *name)
{
    autofd int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat st;

    assert(l->words <= LEDGER_WORDS_MAX);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    l->dirfd = dirfd;
    l->name = name;
    l->count = (uint64_t) st.st_size / line_bytes(l);
    l->fd = steal_fd(&fd);
    return 0;
}

void ledger_close(struct ledger *l)
{
    ledger_forget(l);
    close(l->fd);
}

int ledger_read(struct ledger *l)
{
    uint64_t some[BLOCK_LINES * LEDGER_WORDS_MAX];
    size_t size = line_bytes(l);
    off_t at = 0;
    ssize_t got;

    while ((got = pread(l->fd, some, BLOCK_LINES * size, at)) >= (ssize_t) size) {
        size_t count = (size_t) got / size;
        for (size_t i = 0; i < count; i++) {
            if (some[i * l->words])
                ledger_put(l, &some[i * l->words]);
        }
        at += (off_t) (count * size);
    }
    return got < 0 ? -errno : 0;
}

bool ledger_append(struct ledger *l, const uint64_t *line)
{
    size_t size = line_bytes(l);

    if (pwrite(l->fd, line, size, (off_t) (l->count * size)) != (ssize_t) size)
        return false;
    l->count++;
    return true;
}

static int write_held(const struct ledger *l, int fd)
{
    uint64_t some[BLOCK_LINES * LEDGER_WORDS_MAX];
    const uint64_t *line = NULL;
    size_t slot = 0, n;
    int r = 0;

    do {
        for (n = 0; n < BLOCK_LINES && (line = ledger_next(l, &slot)); n++)
            memcpy(&some[n * l->words], line, line_bytes(l));
        r = fd_write_full(fd, some, n * line_bytes(l));
    } while (r == 0 && line);
    return r;
}

int ledger_replace(struct ledger *l, const uint64_t *first, const struct buf *lines)
{
    struct file_pending file = FILE_PENDING_NONE;
    char moment[32];
    int r = file_replace_begin(l->dirfd, l->name, 0600, &file);

    snprintf(moment, sizeof(moment), "log-%s", l->name);
    if (r == 0 && first)
        r = fd_write_full(file.fd, first, line_bytes(l));
    if (r == 0)
        r = lines ? fd_write_full(file.fd, lines->data, lines->len) : write_held(l, file.fd);
    fault(moment);
    if (r == 0)
        r = file_replace_commit_opened(&file, l->fd);
    file_replace_abort(&file);
    if (r == 0)
        l->count = (first ? 1 : 0) + (lines ? lines->len / line_bytes(l) : l->held);
    return r;
}

/* ---- the table ---- */

static bool holds(const struct ledger *l, const uint64_t *line)
{
    return line[0] && line[l->void_at] != l->void_word;
}

/* Mixed: some keys are hashes, others follow upon each other. */
static uint64_t *slot_of(const struct ledger *l, uint64_t key)
{
    size_t i = (key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (l->cap - 1);

    while (l->slots[i * l->words] && l->slots[i * l->words] != key)
        i = (i + 1) & (l->cap - 1);
    return &l->slots[i * l->words];
}

/* What is void is left out, so the table is as large as what holds, not as what ever was. */
static void make_room(struct ledger *l)
{
    struct ledger old = *l;
    const uint64_t *line;

    l->cap = CAP_LEAST;
    while (l->cap < l->held * 4)
        l->cap *= 2;
    l->slots = xalloc(l->cap * line_bytes(l));
    l->used = l->held;
    for (size_t slot = 0; (line = ledger_next(&old, &slot));)
        memcpy(slot_of(l, line[0]), line, line_bytes(l));
    free(old.slots);
}

bool ledger_put(struct ledger *l, const uint64_t *line)
{
    uint64_t *slot;

    if (l->used * 2 >= l->cap)
        make_room(l);
    slot = slot_of(l, line[0]);
    if (memcmp(slot, line, line_bytes(l)) == 0)
        return false;
    l->used += !slot[0];
    l->held += (size_t) holds(l, line) - (size_t) holds(l, slot);
    memcpy(slot, line, line_bytes(l));
    return true;
}

const uint64_t *ledger_find(const struct ledger *l, uint64_t key)
{
    const uint64_t *slot = l->cap ? slot_of(l, key) : NULL;

    return slot && holds(l, slot) ? slot : NULL;
}

const uint64_t *ledger_next(const struct ledger *l, size_t *slot)
{
    while (*slot < l->cap) {
        const uint64_t *line = &l->slots[(*slot)++ * l->words];
        if (holds(l, line))
            return line;
    }
    return NULL;
}

void ledger_forget(struct ledger *l)
{
    free(l->slots);
    l->slots = NULL;
    l->cap = l->used = l->held = 0;
}
