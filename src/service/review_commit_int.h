/* Internal: shared by the files of commits. */
#pragma once

#include "service/review_commit.h"

/* The files of a plan, in the form of review/. */
struct plan_paths {
    char **paths;               /* owned, like its elements */
    size_t *places;             /* owned: the index of the newest row of each */
    struct commit_parts *parts; /* owned */
    const char **names;         /* owned array: the names in all parts */
    size_t count, name_count;
    int fd; /* owned: the directory of the parts */
};

#define PLAN_PATHS_NONE ((struct plan_paths){ .fd = -1 })

/* Lists all files, or those that a commit would change. Fills the plan's `latest`. */
int plan_paths_list(struct service *service, struct review_commit_plan *plan, bool only_dirty, struct plan_paths *ret,
                    struct err *err);
void plan_paths_done(struct plan_paths *paths);

/* Fills a plan that has its rows, except for the message. */
int review_commit_plan_look(struct service *service, struct review_commit_plan *plan, struct err *err);

/* Tells whether row `i` is the newest of a file that a commit would change. */
bool review_commit_plan_is_dirty(const struct review_commit_plan *plan, size_t i);
