/*
 * Where the project stands, seen from one edit: on what the agent worked from, or elsewhere.
 *
 * It is asked of every change of a set, so the diary and a stat tell it where they can: a file that nobody has touched since the delta was
 * made is not read. `hash` is of what the edit is shown against beside the agent's own bytes: whoever chose hunks of it chose them
 * with this.
 */
#pragma once

#include "review/blob.h"
#include "review/edit.h"
#include "review/file_state.h"

struct drift {
    bool has_moved; /* what would be applied is not simply what the agent has: reconcile.h knows */
    bool is_noted;  /* `hash` says something: it has moved, or the agent was given another ground by an approval or a rebase */
    uint8_t hash[FILE_STATE_HASH_BYTES]; /* of the project's file and of the ground */
};

#define DRIFT_NONE ((struct drift){ .has_moved = false })

/* By what the edit says of the project; reads its file only if that does not suffice. */
int drift_detect(const struct edit_list *list, const struct edit *edit, struct drift *ret);

/* By what was read of it. */
int drift_of_blob(const struct edit_list *list, const struct edit *edit, const struct blob *project, struct drift *ret);
void drift_of_file_state(const struct edit_list *list, const struct edit *edit, const struct file_state *project,
                         struct drift *ret);

/* In hex; "" of one that is not noted. */
void drift_text(const struct drift *drift, char out[2 * FILE_STATE_HASH_BYTES + 1]);
