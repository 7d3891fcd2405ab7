/* Applied changes as lists show them: grouped by the sandbox they came from, and the changes of one path. */
#pragma once

#include "base/err.h"
#include "service/caller.h"
#include "service/review_commit.h"

struct service;

/* One sandbox: its files, and how often changes were applied to them. */
struct applied_group {
    const struct applied_change_row *newest; /* borrowed from the rows */
    size_t files, changes, added, modified, deleted;
};

/* Groups rows by sandbox; the sandbox with the newest change comes first. `rows` must have the newest first, and `groups` must hold as many
 * items as there are rows. */
size_t applied_group_rows(const struct applied_change_rows *rows, struct applied_group *groups);

/* Counts the distinct files. */
size_t applied_count_files(const struct applied_change_rows *rows);

/* Makes `path` clean and absolute; a relative path starts at the project's root. `ret_root` is NULL if no root was given. Free both. */
int applied_find_path(struct service *service, const struct caller *caller, const char *path, const char *project_root,
                      char **ret_path, char **ret_root, struct err *err);
