/*
 * The hunks between two texts: runs of changed lines with up to three lines of context, as in a unified diff. Each can be
 * applied alone.
 *
 * A hunk's id depends on what it does, not on where it is: 16 hex digits of a SHA-256 over its removed and added lines and its
 * index among the identical hunks of the file. So it stays the same while other hunks of the file are applied or the lines
 * above it change.
 *
 * The texts may be any bytes. libgit2 compares them in memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define HUNK_ID_LEN 16
#define HUNK_LINES_MAX ((size_t) 1 << 20) /* of each text; a comparison uses some 80 bytes for every line */
#define HUNK_BYTES_MAX ((size_t) 64 << 20)

struct hunk {
    char id[HUNK_ID_LEN + 1];
    uint32_t old_start, old_lines, new_start, new_lines; /* as in the header */
    char *header;                                        /* owned: "@@ -1,3 +1,4 @@", without git's function context */
    struct buf lines; /* each with ' ', '+' or '-' in front, and "\ No newline at end of file" lines; exact bytes */
    size_t added, removed;
};

struct hunk_list {
    struct hunk *items; /* owned; in order of position */
    size_t count, cap;
};

#define HUNK_LIST_EMPTY ((struct hunk_list){ 0 })

/* Equal texts have none. -EFBIG above HUNK_LINES_MAX or HUNK_BYTES_MAX, and for long texts that have little in common:
 * comparing these would take minutes (line_distance.h). */
int hunk_list_make(const void *was, size_t was_len, const void *now, size_t now_len, struct hunk_list *ret, struct err *err);

/* Only counts lines, without keeping any. */
int hunk_count_lines(const void *was, size_t was_len, const void *now, size_t now_len, size_t *ret_added, size_t *ret_removed,
                     struct err *err);

/* Adds to `ret` what `was` becomes if only the chosen hunks are applied. `list` must have been made of the same two texts
 * (-EINVAL if it cannot have been). All hunks give exactly `now`, none exactly `was`. */
int hunk_list_pick(const void *was, size_t was_len, const void *now, size_t now_len, const struct hunk_list *list,
                   const bool *chosen, struct buf *ret, struct err *err);

/* For hunks of texts that are ranges of others: adds the number of lines before them. -EFBIG: the numbers are too large. */
int hunk_list_shift(struct hunk_list *list, uint64_t lines);

/* NULL: no hunk has this id. */
const struct hunk *hunk_list_find(const struct hunk_list *list, const char *id);

void hunk_list_done(struct hunk_list *list);
