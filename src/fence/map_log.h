/*
 * A file of lines, all of the same few words, the first of which is a key; of a key the last line counts. And a table of what counts, as far as
 * it was read or put.
 *
 * Nobody waits for a disk when a line is appended, so what a crash of the machine tears or loses at the end is not there for whoever reads. The
 * file is written anew in one step. Not for several threads at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define MAP_LOG_WORDS_MAX 4

struct map_log {
    /* The caller's to set; without a file only the table is used. */
    size_t words;
    size_t void_at; /* a line with `void_word` here says that there is nothing of that key */
    uint64_t void_word;

    int dirfd;        /* borrowed */
    const char *name; /* borrowed */
    int fd;           /* owned */
    uint64_t count;   /* lines of the file */

    uint64_t *slots; /* owned; open addressing; NULL: an empty table */
    size_t cap, used, value_count;
};

/* Reads nothing yet. */
int map_log_open(struct map_log *l, int dirfd, const char *name);
void map_log_close(struct map_log *l);

/* Puts all lines of the file into the table, those of key 0 excepted: they were never written. */
int map_log_read(struct map_log *l);

/* At the end of the file, not into the table; false: it could not be written, and the next one takes its place. */
bool map_log_append(struct map_log *l, const uint64_t *line);

/* The file anew, in one step: of `first`, unless NULL, and `lines`; NULL: of what the table holds. */
int map_log_replace(struct map_log *l, const uint64_t *first, const struct buf *lines);

/* ---- the table ---- */

/* False: that is what it said already. */
bool map_log_put(struct map_log *l, const uint64_t *line);

/* NULL: nothing of that key. Until the next line is put. */
const uint64_t *map_log_find(const struct map_log *l, uint64_t key);

/* The next line that holds from the slot on, which is set behind it; NULL: that was all. */
const uint64_t *map_log_next(const struct map_log *l, size_t *slot);

/* Gives the table's memory back. */
void map_log_clear_table(struct map_log *l);
