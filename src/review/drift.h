/*
 * Tells whether the project still has what an edit was made from.
 *
 * It is computed for every change of a set, so the change log and a stat answer where they can: a file that is unchanged since
 * the delta was created is not read. `hash` covers what the edit is compared with, but not the agent's own bytes: chosen hunks
 * depend on it.
 */
#pragma once

#include "review/blob.h"
#include "review/edit.h"
#include "review/file_state.h"

struct drift {
    bool has_moved;                      /* an approval would not apply simply the agent's version; see reconcile.h */
    bool is_noted;                       /* `hash` is valid: it has moved, or an approval or a rebase set another merge base */
    uint8_t hash[FILE_STATE_HASH_BYTES]; /* of the project's file and of the merge base */
};

#define DRIFT_NONE ((struct drift){ .has_moved = false })

/* Uses what the edit knows about the project; reads the file only if that does not suffice. */
int drift_detect(const struct edit_list *list, const struct edit *edit, struct drift *ret);

/* Uses the project's file, already read. */
int drift_of_blob(const struct edit_list *list, const struct edit *edit, const struct blob *project, struct drift *ret);
void drift_of_file_state(const struct edit_list *list, const struct edit *edit, const struct file_state *project,
                         struct drift *ret);

/* In hex; "" if it is not noted. */
void drift_text(const struct drift *drift, char out[2 * FILE_STATE_HASH_BYTES + 1]);
