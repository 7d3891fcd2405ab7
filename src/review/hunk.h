/*
 * The hunks between two texts: runs of changed lines with up to three lines of context, as a unified diff has them, each of which
 * can be taken or left by itself.
 *
 * A hunk is known by an id that says what it does, not where: 16 hex digits of a SHA-256 over its removed and added lines and over
 * which of the hunks that do the same it is in this file. So it keeps its id while other hunks of the file are taken or
 * the lines above it change.
 *
 * The texts may be any bytes. Comparing is done by libgit2 on buffers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define HUNK_ID_LEN 16
#define HUNK_LINES_MAX ((size_t) 1 << 20) /* of each text; comparing takes some 80 bytes for every line */
#define HUNK_BYTES_MAX ((size_t) 64 << 20)

struct hunk {
    char id[HUNK_ID_LEN + 1];
    uint32_t old_start, old_lines, new_start, new_lines; /* as in the header */
    char *header;                                        /* owned: "@@ -1,3 +1,4 @@", without what git puts behind it */
    struct buf lines; /* with ' ', '+', '-' before each, and "\ No newline at end of file" lines; exact bytes */
    size_t added, removed;
};

struct hunk_list {
    struct hunk *items; /* owned; by their place in the text */
    size_t count, cap;
};

#define HUNK_LIST_EMPTY ((struct hunk_list){ 0 })

/* Equal texts have none. -EFBIG above HUNK_LINES_MAX or HUNK_BYTES_MAX, and for long texts that have little in common: comparing these would take
 * minutes (line_distance.h). */
int hunk_list_make(const void *was, size_t was_len, const void *now, size_t now_len, struct hunk_list *ret, struct err *err);

/* Only how many lines there are, without keeping any. */
int hunk_count_lines(const void *was, size_t was_len, const void *now, size_t now_len, size_t *ret_added, size_t *ret_removed,
                     struct err *err);

/* What `was` becomes when only the chosen hunks happen: adds it to `ret`. `list` must have been made of the same two texts
 * (-EINVAL when it cannot have been). All chosen is `now`, none is `was`, to the byte. */
int hunk_list_pick(const void *was, size_t was_len, const void *now, size_t now_len, const struct hunk_list *list,
                   const bool *chosen, struct buf *ret, struct err *err);

/* Of hunks whose texts begin in the middle of others: as many lines come before them. -EFBIG: more than can be told. */
int hunk_list_shift(struct hunk_list *list, uint64_t lines);

/* NULL: none of them has this id. */
const struct hunk *hunk_list_find(const struct hunk_list *list, const char *id);

void hunk_list_done(struct hunk_list *list);
