/*
 * What was reviewed, for approve.h: the hash that each change had when it was shown (struct file_change), and, where hunks of it were
 * chosen, how it stood to the project then: other hunks are shown of the same file of the agent's when the project moves on. A file that is
 * taken whole is merged with whatever the project has. An approve_check_fn.
 */
#pragma once

#include "review/approve.h"

struct expectation {
    const char *path;     /* from the root of the base */
    const char *hash;     /* in hex */
    const char *standing; /* likewise, or "" (standing.h); NULL: however it stands */
};

struct expectation_list {
    const struct expectation *items;
    size_t count;
    bool is_complete; /* a change that is not among them was never shown, and is stale */
};

/* The cookie is a struct expectation_list. Directories are not looked at: what is in them is. */
int expectation_check(const struct edit_list *list, const struct edit *edit, const struct reconcile *re, void *cookie,
                      struct err *err);
