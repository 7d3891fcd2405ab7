/*
 * What the fence wrote down about a delta's paths (fence/change_log.h), read back: of each path, what the base had there when the
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

#define CHANGE_LOG_INDEX_HASH_BYTES 32               /* SHA-256 */
#define CHANGE_LOG_INDEX_HASH_MAX ((off_t) 64 << 20) /* larger files are told by size and time alone */

enum base_entry_kind {
    BASE_ENTRY_UNKNOWN,
    BASE_ENTRY_ABSENT, /* the agent made it where nothing was */
    BASE_ENTRY_PRESENT,
};

struct base_entry {
    char *path; /* owned; no leading slash */
    size_t line;
    enum base_entry_kind base;
    bool was_removed; /* deleted, moved or copied by the agent, who therefore saw it */
    bool is_reset;    /* it was applied, or left the delta (BASE_ENTRY_UNKNOWN): what was before does not count */
    int64_t since_ns; /* when it last left the delta, wall clock; 0: never */
    /* Of BASE_ENTRY_PRESENT: */
    bool has_moved_on; /* it was not what the agent had read any more */
    bool has_hash;
    uint8_t hash[CHANGE_LOG_INDEX_HASH_BYTES];
    uint64_t size_bytes;
    int64_t mtime_ns;
    mode_t mode; /* permission bits */
    char *kept;  /* owned: the copy of it in <delta>/meta/pre, or NULL */
};

struct change_log_index {
    struct base_entry *entries; /* owned; sorted by path once loaded */
    size_t count, cap;
};

#define CHANGE_LOG_INDEX_EMPTY ((struct change_log_index){ 0 })

/* Reads <delta>/meta/changes. One that is not there is an empty diary. */
int change_log_index_load(int meta_fd, struct change_log_index *ret, struct err *err);
void change_log_index_done(struct change_log_index *log_index);

/* NULL: no line speaks of it. */
const struct base_entry *change_log_index_find(const struct change_log_index *log_index, const char *path);

/* Appends what the base has at a path from now on (NULL: nothing), because it was applied. `fd` is open for appending; `hash` is
 * NULL for what has none. */
int change_log_index_note_applied(int fd, const char *path, const struct stat *base, const uint8_t *hash);

/* The same as text: adds a line that makes the page's the path's base from now on. */
void change_log_index_add_line(struct buf *out, const struct base_entry *entry);

/* Writes such lines to <delta>/meta/changes, durably. */
int change_log_index_append(int meta_fd, const char *lines, size_t len);

/* Of a regular file of at most CHANGE_LOG_INDEX_HASH_MAX bytes; -EFBIG. */
int change_log_index_hash(int fd, uint8_t out[CHANGE_LOG_INDEX_HASH_BYTES]);

/* For the tests: one line of the file, without its newline. False when it says nothing. */
bool change_log_index_parse_line(struct change_log_index *log_index, const char *line, size_t len);
