/* What a request names of a sandbox's changes. */
#pragma once

#include "api/compat_workspace_call.h"
#include "service/reviews.h"

/* What the choice borrows from. */
struct compat_review_choice {
    struct review_choice choice;
    const char **paths, **file_ids;  /* owned arrays */
    struct review_hunks *hunks;      /* owned, with the arrays in it */
    struct selection_range **ranges; /* owned; one for each of the hunks, or NULL */
    const char ***ids;               /* owned; likewise */
};

/* fileIds, hunks, hunkRanges, and paths under `paths_key`. */
int compat_review_choice_take(const json_t *body, const char *paths_key, struct compat_review_choice *ret, struct err *err);
void compat_review_choice_done(struct compat_review_choice *choice);
