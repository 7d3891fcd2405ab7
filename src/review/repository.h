/*
 * Finds directories that git treats as repositories although they are not called `.git`. In each directory that git runs in or
 * below, it looks for HEAD beside objects and refs, or beside a `commondir` that names their place; then it obeys the `config`
 * there, which may name programs to run. It only checks whether objects and refs may be entered or executed, so a file or a
 * link will do.
 *
 * HEAD beside any one of the three counts, since the others may come with a later approval. So does `config` beside objects
 * and refs: a `commondir` elsewhere may lead to it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "review/edit.h"

struct repository_parts {
    struct repository_part {
        char *directory; /* owned; in lower case, "" or with a trailing slash */
        unsigned parts;
    } * items; /* owned; by directory */
    size_t count, cap;
    int base_fd; /* borrowed */
};

/* Collects the parts of a repository that the changes would create. The edits must outlive it. */
void repository_parts_init(struct repository_parts *parts, const struct edit_list *edits);
void repository_parts_done(struct repository_parts *parts);

/* Tells whether the path is part of such a directory, in the base together with the changes. */
bool repository_parts_hold(const struct repository_parts *parts, const char *path);
