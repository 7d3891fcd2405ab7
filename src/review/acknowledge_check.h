/*
 * Which changes of a delta need acknowledgement, and why: by their paths before and after, by where links lead, by the names that files
 * get through links, by what git would take for a repository, and for a few files by what is in them.
 *
 * A deletion is judged as a change is: who deletes a hook or a CI job takes a check away.
 */
#pragma once

#include "review/acknowledge.h"
#include "review/edit.h"
#include "review/link_names.h"
#include "review/repository.h"

struct acknowledge_check {
    const struct edit_list *edits; /* borrowed */
    char *prefix;                  /* owned; the sandbox's root from the project's, "" or without a slash at either end */
    struct link_names links;
    struct repository_parts repositories;
    struct acknowledge_check_word {
        char *text; /* owned */
        enum acknowledge reason;
    } * words; /* owned; commands and paths that hooks and CI files of the base name, by text */
    size_t word_count, word_cap;
};

int acknowledge_check_init(struct acknowledge_check *check, const struct edit_list *edits, const char *prefix, struct err *err);
void acknowledge_check_done(struct acknowledge_check *check);

/* `from`: the deletion that a rename takes in; NULL: none. */
enum acknowledge acknowledge_check_edit(const struct acknowledge_check *check, const struct edit *edit,
                                        const struct edit *from);
