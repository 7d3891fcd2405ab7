/*
 * Asking a person about each hunk, as `git add -p` does. The changes come as the API tells them (docs/workspace.md), each a file with its hunks;
 * one without hunks, such as a link, a mode or bytes that are no text, is asked about as a whole, and so is one that was renamed.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* What was said of one file. */
struct choice {
    bool *hunks; /* owned: one for each of its hunks */
    size_t hunk_count, taken;
    bool is_whole; /* all of it */
};

struct choice_list {
    struct choice *items; /* owned: one for each file */
    size_t count;
    size_t taken; /* files of which something was */
};

/* read(2), or what reads for us. */
typedef ssize_t (*chooser_read_fn)(int fd, void *bytes, size_t size);

/* Asks on standard output, and reads answers from standard input. When that ends before the last answer nothing is meant: -ECANCELED. */
int chooser_run(const json_t *files, chooser_read_fn read, struct choice_list *ret, struct err *err);
void choice_list_done(struct choice_list *list);
