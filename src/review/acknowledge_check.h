/*
 * Finds the changes of a delta that need acknowledgement, and the reason: by the paths before and after, the targets of links,
 * the names that files get through links, the parts of a repository that git would accept, and, for a few files, the content.
 *
 * A deletion is judged like a change: deleting a hook or a CI job removes a check.
 */
#pragma once

#include "review/acknowledge.h"
#include "review/edit.h"
#include "review/link_names.h"
#include "review/repository.h"

struct acknowledge_check {
    const struct edit_list *edits; /* borrowed */
    char *prefix;                  /* owned; the sandbox's root from the project's: "", or without a slash at either end */
    struct link_names links;
    struct repository_parts repositories;
    struct acknowledge_check_word {
        char *text; /* owned */
        enum acknowledge reason;
    } * words; /* owned, by text; commands and paths that the base's hooks and CI files name */
    size_t word_count, word_cap;
};

int acknowledge_check_init(struct acknowledge_check *check, const struct edit_list *edits, const char *prefix, struct err *err);
void acknowledge_check_done(struct acknowledge_check *check);

/* `from` is the deletion that belongs to a rename, or NULL. */
enum acknowledge acknowledge_check_edit(const struct acknowledge_check *check, const struct edit *edit,
                                        const struct edit *from);
