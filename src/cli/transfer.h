/*
 * Files and directories between here and a codebase. A file goes as it is, a directory as one archive; either arrives whole or not at all, on a
 * codebase as one version. Here, a file takes the place of another by being renamed, and an archive is unpacked when it is complete.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/api_verb.h"

struct transfer_options {
    const char **exclude; /* owned array, borrowed texts */
    size_t exclude_count, exclude_cap;
    bool replaces;   /* what is not in the directory goes from the codebase */
    int64_t version; /* of a file that is got; 0: as it is now */
    bool git_as_is;  /* of a directory that is got: with what git would run (codebase/git_filter.h) */
};

void transfer_options_done(struct transfer_options *options);

/* `local` "-" is standard input. `path` "" is the codebase itself, and ends in "/" to name a directory. The answer is the API's: of an upload. */
int transfer_put(struct api_call *call, const char *codebase_id, const char *local, const char *path,
                 const struct transfer_options *options, struct err *err);

/* `local` "-" is standard output. A file goes into a directory that is there under its name; what is in a directory goes into `local`. */
int transfer_get(struct api_call *call, const char *codebase_id, const char *path, const char *local,
                 const struct transfer_options *options, struct err *err);
