/*
 * Pairs added files with deleted ones by their content: the same bytes, or at least half of the lines. Each deletion is used
 * once.
 *
 * The cost is bounded, whatever the agent made: beyond the limits a moved file is shown as an addition and a deletion, which
 * is equally true.
 */
#pragma once

#include "review/edit.h"

#define RENAME_LEAST 50                               /* per cent that must be the same */
#define RENAME_HASHED_MOST ((uint64_t) 256 << 20)     /* bytes read in all to find equal files */
#define RENAME_SIMILAR_MOST ((uint64_t) 1 << 20)      /* bytes of a file compared line by line ... */
#define RENAME_SIMILAR_ALL_MOST ((uint64_t) 64 << 20) /* ... and of all of them */
#define RENAME_STEPS_MOST ((uint64_t) 50 << 20)       /* lines compared, over all pairs */

struct rename {
    size_t from; /* index of the deletion among the edits, or RENAME_NONE */
    unsigned percent;
};

#define RENAME_NONE SIZE_MAX

/* Returns one for each edit, to be freed. Never fails: an unreadable file is not a rename. */
struct rename *rename_find(const struct edit_list *edits);
