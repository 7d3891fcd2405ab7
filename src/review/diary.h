/*
 * What the fence wrote down about a delta's paths (fence/record.h), read back: of each path, what the base had there when the
 * agent first covered it, and whether the agent is the one who took it away.
 *
 * Lines that are torn or say nothing we know are passed over. That loses knowledge, and who judges by it must then be
 * careful: not to delete what no line speaks of, not to replace what may have changed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#define DIARY_HASH_BYTES 32                /* SHA-256 */
#define DIARY_HASH_MOST ((off_t) 64 << 20) /* larger files are told by size and time alone */

enum diary_base {
    DIARY_BASE_UNKNOWN,
    DIARY_BASE_ABSENT, /* the agent made it where nothing was */
    DIARY_BASE_PRESENT,
};

struct diary_page {
    char *path; /* owned; no leading slash */
    size_t line;
    enum diary_base base;
    bool was_removed; /* deleted, moved or copied by the agent, who therefore saw it */
    bool is_reset;    /* it was applied, or left the delta (DIARY_BASE_UNKNOWN): what was before does not count */
    int64_t since_ns; /* when it last left the delta, wall clock; 0: never */
    /* Of DIARY_BASE_PRESENT: */
    bool has_moved_on; /* it was not what the agent had read any more */
    bool has_hash;
    uint8_t hash[DIARY_HASH_BYTES];
    uint64_t size_bytes;
    int64_t mtime_ns;
    mode_t mode; /* permission bits */
    char *kept;  /* owned: the copy of it in <delta>/meta/pre, or NULL */
};

struct diary {
    struct diary_page *pages; /* owned; sorted by path once loaded */
    size_t count, cap;
};

#define DIARY_EMPTY ((struct diary){ 0 })

/* Reads <delta>/meta/changes. One that is not there is an empty diary. */
int diary_load(int meta_fd, struct diary *ret, struct err *err);
void diary_done(struct diary *diary);

/* NULL: no line speaks of it. */
const struct diary_page *diary_find(const struct diary *diary, const char *path);

/* Appends what the base has at a path from now on (NULL: nothing), because it was applied. `fd` is open for appending; `hash` is
 * NULL for what has none. */
int diary_note_applied(int fd, const char *path, const struct stat *base, const uint8_t *hash);

/* The same as text: adds a line that makes the page's the path's base from now on. */
void diary_add_line(struct buf *out, const struct diary_page *page);

/* Writes such lines to <delta>/meta/changes, durably. */
int diary_append(int meta_fd, const char *lines, size_t len);

/* Of a regular file of at most DIARY_HASH_MOST bytes; -EFBIG. */
int diary_hash(int fd, uint8_t out[DIARY_HASH_BYTES]);

/* For the tests: one line of the file, without its newline. False when it says nothing. */
bool diary_take_line(struct diary *diary, const char *line, size_t len);
