/*
 * Which of a delta's changes are chosen: all, whole files, or hunks of files; and which version of them was reviewed.
 *
 * Callers convert a request to this struct of borrowed strings. Paths start at the root of the base. One that names a
 * directory chooses all in it, and cannot have hunks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "review/edit.h"
#include "review/hunk.h"

/* Lines of the new text, from 1, both included. A hunk is chosen if its first line on the new side is in the range. */
struct selection_range {
    uint32_t first, last;
};

struct selection_file {
    const char *path;
    const char *const *hunk_ids; /* with neither ids nor ranges: the whole file */
    size_t hunk_id_count;
    const struct selection_range *ranges;
    size_t range_count;
};

struct selection {
    const struct selection_file *files; /* none: all changes */
    size_t file_count;
};

#define SELECTION_ALL ((struct selection){ .files = NULL })

/* Loads the chosen edits. A path without changes is ERR_NOT_FOUND; hunks of a path that is also chosen as a whole, or of a
 * directory, are ERR_INVALID_ARGUMENT. */
int selection_load(const struct selection *selection, const char *delta_path, struct edit_list *ret, struct err *err);

/* The entry with the hunks of a loaded edit; NULL: all of the edit is chosen. */
const struct selection_file *selection_hunks_of(const struct selection *selection, const struct edit *edit);

/* Fills `chosen`, one for each hunk of the list; returns the count. An unknown id is ERR_ABORTED with the reason
 * HUNK_UNKNOWN: the file was changed since it was shown. */
int selection_choose(const struct selection_file *file, const struct hunk_list *hunks, bool *chosen, struct err *err);
