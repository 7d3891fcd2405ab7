/* What was applied, as lists show it: changes grouped by the sandbox they came from, and the changes of one path. */
#pragma once

#include "base/err.h"
#include "service/caller.h"
#include "service/review_commit.h"

struct service;

/* Of one sandbox: files, and the times that something was applied to them. */
struct applied_group {
    const struct applied_change_row *newest; /* borrowed from the rows */
    size_t files, changes, added, modified, deleted;
};

/* By sandbox, the one with the newest change first. Rows come with the newest first; `groups` has room for as many as there are rows. */
size_t applied_group_rows(const struct applied_change_rows *rows, struct applied_group *groups);

/* How many files there are, each counted once. */
size_t applied_count_files(const struct applied_change_rows *rows);

/* Which path is meant, clean and absolute: `path` is that, or counts from the project's root. `ret_root` is NULL unless one was given. Free both. */
int applied_find_path(struct service *service, const struct caller *caller, const char *path, const char *project_root,
                      char **ret_path, char **ret_root, struct err *err);
