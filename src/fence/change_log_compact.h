/*
 * The compacted text of a delta's change log (change_log.h): those of its lines from which a reader still learns something. A program that makes ever new names
 * and removes them again fills the change log with lines about nothing; whoever owns it writes the compacted text in its place now and then.
 *
 * Nothing stays that was said of a path before it last left the delta: what was approved over and over is told once. Of the rest, lines
 * stay if they say what a base file was (they are told once), or what somebody decided; of the others, for each path that is there,
 * the first and the last of a kind. review/change_log_index.c reads the same from them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Whether delta or base have anything at the path, which is relative. In doubt they have. */
typedef bool (*change_log_exists_fn)(const char *path, void *cookie);

/* Adds the lines that stay to `out`, in their order. Those told after `young_ns` (wall clock) do: what they tell of may not have
 * happened yet. */
void change_log_compact(const char *text, size_t len, int64_t young_ns, change_log_exists_fn is_there, void *cookie,
                        struct buf *out);
