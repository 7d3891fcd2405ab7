/* Inside the module: what the files of a commit share. */
#pragma once

#include "service/review_commit.h"

/* The files of a plan, as review/ takes them. */
struct plan_paths {
    char **paths;               /* owned, like its elements */
    size_t *places;             /* owned: the newest row of each */
    struct commit_parts *parts; /* owned */
    const char **names;         /* owned array: of all parts */
    size_t count, name_count;
    int fd; /* owned: where the parts are */
};

#define PLAN_PATHS_NONE ((struct plan_paths){ .fd = -1 })

/* All, or those that a commit would change. Fills the plan's `latest`. */
int plan_paths_list(struct service *service, struct review_commit_plan *plan, bool only_dirty, struct plan_paths *ret,
                    struct err *err);
void plan_paths_done(struct plan_paths *paths);

/* Fills all of a plan that has its rows, but the message. */
int review_commit_plan_look(struct service *service, struct review_commit_plan *plan, struct err *err);

/* The newest row of a file that a commit would change. */
bool review_commit_plan_is_dirty(const struct review_commit_plan *plan, size_t i);
