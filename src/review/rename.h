/*
 * Which added file is a deleted one under another name, told by what is in them: the same bytes, or else at least half of them the
 * same lines. Each deletion is used once.
 *
 * The cost is bounded, whatever the agent made: beyond the limits a file that moved is an addition and a deletion, which is as true.
 */
#pragma once

#include "review/edit.h"

#define RENAME_LEAST 50                               /* per cent that must be the same */
#define RENAME_HASHED_MOST ((uint64_t) 256 << 20)     /* bytes read in all, looking for equal files */
#define RENAME_SIMILAR_MOST ((uint64_t) 1 << 20)      /* bytes of a file compared line by line ... */
#define RENAME_SIMILAR_ALL_MOST ((uint64_t) 64 << 20) /* ... and of all of them */
#define RENAME_STEPS_MOST ((uint64_t) 50 << 20)       /* lines looked at, over all pairs */

struct rename {
    size_t from; /* index of the deletion among the edits; RENAME_NONE */
    unsigned percent;
};

#define RENAME_NONE SIZE_MAX

/* One for each edit, to be freed. Never fails: what cannot be read is no rename. */
struct rename *rename_find(const struct edit_list *edits);
