/* Formats how long ago a time was, in one unit: "12s", "3h". */
#pragma once

#include <stdint.h>

#define AGE_TEXT_MAX 16

/* Writes "-" if `wall_ns` is 0 or in the future. */
void age_format(int64_t wall_ns, char out[AGE_TEXT_MAX]);
