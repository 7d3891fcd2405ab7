/*
 * Directories that git takes for a repository although they are not called `.git`. In each directory that git runs in or below, it looks
 * for HEAD beside objects and refs, or beside a `commondir` that says where those are; then it obeys the `config` there, which may name
 * programs to run. It only asks whether objects and refs may be entered or executed, so a file or a link will do.
 *
 * HEAD beside any one of the three counts, since the others may come with a later approval. So does `config` beside objects and refs:
 * a `commondir` elsewhere may lead to it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "review/edit.h"

struct repository_parts {
    struct repository_part {
        char *directory; /* owned; in lower case, "" or with a slash at its end */
        unsigned parts;
    } * items; /* owned; by directory */
    size_t count, cap;
    int base_fd; /* borrowed */
};

/* Notes which parts of a repository the changes would make, and where. The edits must outlive it. */
void repository_parts_init(struct repository_parts *parts, const struct edit_list *edits);
void repository_parts_done(struct repository_parts *parts);

/* Whether the path is part of such a directory, as the base has it together with what the changes make. */
bool repository_parts_hold(const struct repository_parts *parts, const char *path);
