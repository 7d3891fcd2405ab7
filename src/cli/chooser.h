/*
 * Asks the user about each hunk, as `git add -p` does. It asks about a file as a whole if it has no hunks (a symbolic link, a changed mode, a binary
 * file) or was renamed.
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
    bool is_whole; /* the user chose the whole file */
};

struct choice_list {
    struct choice *items; /* owned: one for each file */
    size_t count;
};

/* Prints questions on standard output and reads answers from standard input. -ECANCELED when the input ends before the last answer: then nothing
 * is chosen. */
int chooser_run(Sandbox__V1__FileChange *const *files, size_t count, struct choice_list *ret, struct err *err);
void choice_list_done(struct choice_list *list);
