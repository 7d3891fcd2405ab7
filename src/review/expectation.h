/*
 * What was reviewed, for approve.h: the hash that each change had when it was shown (struct file_change). An approve_check_fn.
 */
#pragma once

#include "review/approve.h"

struct expectation {
    const char *path; /* from the root of the base */
    const char *hash; /* in hex */
};

struct expectation_list {
    const struct expectation *items;
    size_t count;
    bool is_complete; /* a change that is not among them was never shown, and is stale */
};

/* The cookie is a struct expectation_list. Directories are not looked at: what is in them is. */
int expectation_check(const struct edit_list *list, const struct edit *edit, void *cookie, struct err *err);
