/*
 * A file of lines of the same number of words. The first word is the key; the last line of a key counts. And a table of the
 * valid lines that were read or put.
 *
 * Appending does not wait for the disk, so a crash of the machine may lose lines at the end. The file is rewritten in one step.
 * Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define MAP_LOG_WORDS_MAX 4

struct map_log {
    /* Set by the caller. Without a file only the table is used. */
    size_t words;
    size_t void_at; /* a line with `void_word` here removes its key */
    uint64_t void_word;

    int dirfd;        /* borrowed */
    const char *name; /* borrowed */
    int fd;           /* owned */
    uint64_t count;   /* lines in the file */

    uint64_t *slots; /* owned; open addressing; NULL: the table is empty */
    size_t cap, used, value_count;
};

/* Opens the file and reads nothing. */
int map_log_open(struct map_log *l, int dirfd, const char *name);
void map_log_close(struct map_log *l);

/* Puts all lines of the file into the table, except those of key 0, which were never written. */
int map_log_read(struct map_log *l);

/* Appends to the file, not to the table. Returns false if that failed; the next line then takes its place. */
bool map_log_append(struct map_log *l, const uint64_t *line);

/* Rewrites the file in one step: `first`, unless NULL, then `lines`, or what the table holds if NULL. */
int map_log_replace(struct map_log *l, const uint64_t *first, const struct buf *lines);

/* ---- the table ---- */

/* Returns false if the table had that line already. */
bool map_log_put(struct map_log *l, const uint64_t *line);

/* Returns NULL if the key has no value. Valid until the next line is put. */
const uint64_t *map_log_find(const struct map_log *l, uint64_t key);

/* Returns the next valid line from `slot` on, and moves `slot` behind it; NULL: no more. */
const uint64_t *map_log_next(const struct map_log *l, size_t *slot);

/* Frees the table. */
void map_log_clear_table(struct map_log *l);
