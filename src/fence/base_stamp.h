/*
 * The state of a base file at our last look, in one word: enough to tell later whether the name leads to another file, or to
 * the same file with other content.
 */
#pragma once

#include "fence/fence_int.h"

enum {
    BASE_STAMP_OTHER_FILE = 1,
    BASE_STAMP_OTHER_CONTENT = 2,
    BASE_STAMP_UNSETTLED = 4, /* unknown: it had changed so recently that another change may not show */
};

uint64_t base_stamp_of(const struct stat *st);

/* Returns bits of the above; 0: nothing changed. `before` 0 means that there was no earlier look: then the file counts as the
 * same, with unknown content. */
unsigned base_stamp_differs(uint64_t before, const struct stat *now);

bool base_stamp_is_settled(uint64_t base_stamp);
