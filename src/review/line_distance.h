/*
 * Whether two texts can be compared line by line in reasonable time.
 *
 * Comparing costs little when the texts are short or nearly the same, and with the power of three halves of the lines otherwise: a million lines in
 * random order take minutes, and nothing can stop libgit2 in the middle. So long texts are looked at first, with a bound on every step.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LINE_DISTANCE_EASY 50000 /* lines on each side that differ in any way: a second or two at worst */
#define LINE_DISTANCE_MOST 4000  /* lines added and removed, in texts longer than that */

bool line_distance_is_small(const char *was, size_t was_len, const char *now, size_t now_len);
