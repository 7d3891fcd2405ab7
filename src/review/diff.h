/*
 * One edit as a unified diff with git's headers, made by libgit2 from two buffers. Nothing of git's runs: no filters, no attributes,
 * no configuration of the agent's tree.
 *
 * Names are quoted as git does it. In lines of text whatever could mislead a terminal (control characters, bidi overrides, bytes that
 * are no UTF-8) is written out as an escape, except tabs and a carriage return at the end of a line; `is_exact` leaves it as
 * it is, for a diff that `git apply` shall take and no terminal sees.
 *
 * What is compared is what file_diff.h compares: it is what an approval would do.
 */
#pragma once

#include "base/buf.h"
#include "review/edit.h"
#include "review/reconcile.h"

struct diff {
    struct buf text;
    size_t added, removed; /* lines */
    bool is_binary;
    bool is_too_large;
    enum reconcile_state state;
    const char *reason; /* of a conflict */
};

#define DIFF_NONE ((struct diff){ .added = 0 })

/* A directory has an empty text. */
int diff_make(const struct edit_list *list, const struct edit *edit, bool is_exact, struct diff *ret, struct err *err);
void diff_done(struct diff *diff);
