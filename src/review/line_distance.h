/*
 * Tells whether two texts can be compared line by line in reasonable time.
 *
 * The comparison is cheap if the texts are short or nearly the same; otherwise its time grows with the power 3/2 of the lines:
 * a million lines in random order take minutes, and libgit2 cannot be interrupted. So long texts are checked first, with a
 * bound on every step.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LINE_DISTANCE_EASY 50000 /* differing lines on each side: a second or two at worst */
#define LINE_DISTANCE_MOST 4000  /* lines added and removed, in longer texts */

bool line_distance_is_small(const char *was, size_t was_len, const char *now, size_t now_len);
