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

struct judge {
    const struct edit_list *edits; /* borrowed */
    char *prefix;                  /* owned; the sandbox's root from the project's, "" or without a slash at either end */
    struct link_names links;
    struct repository_parts repositories;
    struct judge_word {
        char *text; /* owned */
        enum acknowledge reason;
    } * words; /* owned; commands and paths that hooks and CI files of the base name, by text */
    size_t word_count, word_cap;
};

int judge_init(struct judge *judge, const struct edit_list *edits, const char *prefix, struct err *err);
void judge_done(struct judge *judge);

/* `from`: the deletion that a rename takes in; NULL: none. */
enum acknowledge judge_edit(const struct judge *judge, const struct edit *edit, const struct edit *from);
