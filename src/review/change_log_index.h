/*
 * An index of the fence's change log (fence/change_log.h): for each path of a delta, what the base had when the agent first
 * covered it, and whether the agent removed it.
 *
 * Torn and unknown lines are skipped. That loses knowledge, so a caller must be careful: it must not delete a path without a
 * line, nor replace one that may have changed.
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
#define CHANGE_LOG_INDEX_HASH_MAX ((off_t) 64 << 20) /* larger files are compared by size and time alone */

enum base_entry_kind {
    BASE_ENTRY_UNKNOWN,
    BASE_ENTRY_ABSENT, /* the agent created it where the base had nothing */
    BASE_ENTRY_PRESENT,
};

struct base_entry {
    char *path; /* owned; no leading slash */
    size_t line;
    enum base_entry_kind base;
    bool was_removed; /* the agent deleted, moved or copied it, and so has seen it */
    bool is_reset;    /* it was applied, or left the delta (BASE_ENTRY_UNKNOWN): earlier lines do not count */
    int64_t since_ns; /* when it last left the delta, wall clock; 0: never */
    /* For BASE_ENTRY_PRESENT: */
    bool has_moved_on; /* it already differed from what the agent had read */
    bool has_hash;
    uint8_t hash[CHANGE_LOG_INDEX_HASH_BYTES];
    uint64_t size_bytes;
    int64_t mtime_ns;
    mode_t mode; /* permission bits */
    char *kept;  /* owned: its copy in <delta>/meta/pre, or NULL */
};

struct change_log_index {
    struct base_entry *entries; /* owned; sorted by path once loaded */
    size_t count, cap;
};

#define CHANGE_LOG_INDEX_EMPTY ((struct change_log_index){ 0 })

/* Reads <delta>/meta/changes. A missing file is an empty log. */
int change_log_index_load(int meta_fd, struct change_log_index *ret, struct err *err);
void change_log_index_done(struct change_log_index *log_index);

/* NULL: no line is about it. */
const struct base_entry *change_log_index_find(const struct change_log_index *log_index, const char *path);

/* Appends the base's new state of a path (NULL: nothing) after it was applied. `fd` is open for appending; `hash` may be
 * NULL. */
int change_log_index_note_applied(int fd, const char *path, const struct stat *base, const uint8_t *hash);

/* Adds the same to a text: a line that makes `entry` the new base state of its path. */
void change_log_index_add_line(struct buf *out, const struct base_entry *entry);

/* Appends such lines to <delta>/meta/changes, durably. */
int change_log_index_append(int meta_fd, const char *lines, size_t len);

/* Hashes a regular file of at most CHANGE_LOG_INDEX_HASH_MAX bytes; -EFBIG. */
int change_log_index_hash(int fd, uint8_t out[CHANGE_LOG_INDEX_HASH_BYTES]);

/* For tests: parses one line without its newline. Returns false for an unknown line. */
bool change_log_index_parse_line(struct change_log_index *log_index, const char *line, size_t len);
