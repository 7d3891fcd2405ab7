/*
 * Asks a person about each hunk, as `git add -p` does. A file without hunks, such as a link, a mode or bytes that are no text, is asked about as
 * a whole, and so is one that was renamed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include <sandbox/v1/review.pb-c.h>

/* The answers about one file. */
struct choice {
    bool *hunks; /* owned: one for each of its hunks */
    size_t hunk_count, chosen_count;
    bool is_whole; /* the person chose all of the file */
};

struct choice_list {
    struct choice *items; /* owned: one for each file */
    size_t count;
};

/* Asks on standard output, and reads answers from standard input. -ECANCELED when the input ends before the last answer: then the person chose
 * nothing. */
int chooser_run(Sandbox__V1__FileChange *const *files, size_t count, struct choice_list *ret, struct err *err);
void choice_list_done(struct choice_list *list);
