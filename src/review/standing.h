/*
 * Where the project stands, seen from one edit: on what the agent worked from, or elsewhere.
 *
 * It is asked of every change of a set, so the diary and a stat tell it where they can: a file that nobody has touched since the delta was
 * made is not read. `hash` is of what the edit is shown against beside the agent's own bytes: whoever chose hunks of it chose them
 * with this.
 */
#pragma once

#include "review/edit.h"
#include "review/image.h"
#include "review/side.h"

struct standing {
    bool has_moved; /* what would be applied is not simply what the agent has: reconcile.h knows */
    bool is_noted;  /* `hash` says something: it has moved, or the agent was given another ground by an approval or a rebase */
    uint8_t hash[IMAGE_HASH_BYTES]; /* of the project's file and of the ground */
};

#define STANDING_STILL ((struct standing){ .has_moved = false })

/* By what the edit says of the project; reads its file only if that does not suffice. */
int standing_look(const struct edit_list *list, const struct edit *edit, struct standing *ret);

/* By what was read of it. */
int standing_of_side(const struct edit_list *list, const struct edit *edit, const struct side *project, struct standing *ret);
void standing_of_image(const struct edit_list *list, const struct edit *edit, const struct image *project,
                       struct standing *ret);

/* In hex; "" of one that is not noted. */
void standing_text(const struct standing *standing, char out[2 * IMAGE_HASH_BYTES + 1]);
