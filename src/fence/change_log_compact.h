/*
 * The compacted text of a delta's change log (change_log.h): the lines from which a reader still learns something. A program
 * that creates and removes ever new names fills the log with lines about nothing, so its owner compacts it now and then.
 *
 * No line stays that is about a path before the path last left the delta: what was approved repeatedly is recorded once. Of the
 * other lines, those stay that describe a base file (they are unique) or record a decision; of the rest, for each path that
 * exists, the first and the last line of a kind. review/change_log_index.c reads the same from them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Returns true if delta or base have anything at the relative path, also if that is unknown. */
typedef bool (*change_log_exists_fn)(const char *path, void *cookie);

/* Adds the lines that stay to `out`, in their order. Lines later than `young_ns` (wall clock) stay: their change may not have
 * happened yet. */
void change_log_compact(const char *text, size_t len, int64_t young_ns, change_log_exists_fn is_there, void *cookie,
                        struct buf *out);
