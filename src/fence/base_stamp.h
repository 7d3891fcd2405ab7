/*
 * What something in the base was when we last looked, in one word: enough to tell later whether the name stands for another file,
 * or for the same one with other content.
 */
#pragma once

#include "fence/fence_int.h"

enum {
    BASE_STAMP_OTHER_FILE = 1,
    BASE_STAMP_OTHER_CONTENT = 2,
    BASE_STAMP_UNSETTLED = 4, /* it cannot be told: it had changed so lately that it may have changed again and look the same */
};

uint64_t base_stamp_of(const struct stat *st);

/* Bits of the above; 0: nothing changed. `before` 0 means that nothing was seen: then what is there is taken
 * for the file that it was. */
unsigned base_stamp_differs(uint64_t before, const struct stat *now);

bool base_stamp_is_settled(uint64_t base_stamp);
