/* What a request names of a sandbox's changes. */
#pragma once

#include "api/ws_call.h"
#include "service/workspace_review.h"

/* What the choice borrows from. */
struct ws_review_choice {
    struct workspace_choice choice;
    const char **paths, **file_ids;  /* owned arrays */
    struct workspace_hunks *hunks;   /* owned, with the arrays in it */
    struct selection_range **ranges; /* owned; one for each of the hunks, or NULL */
    const char ***ids;               /* owned; likewise */
};

/* fileIds, hunks, hunkRanges, and paths under `paths_key`. */
int ws_review_choice_take(const json_t *body, const char *paths_key, struct ws_review_choice *ret, struct err *err);
void ws_review_choice_done(struct ws_review_choice *choice);
