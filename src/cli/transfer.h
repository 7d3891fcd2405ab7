/*
 * Copies files and directories between the local file system and a codebase. A file is sent as it is, a directory as one archive. In a codebase the
 * whole transfer becomes one version. Locally a file replaces another by rename(2), and an archive is unpacked only after all of it has arrived.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/api_verb.h"

struct transfer_options {
    const char **exclude; /* owned array, borrowed strings */
    size_t exclude_count, exclude_cap;
    bool replaces;   /* delete files from the codebase that the directory lacks */
    int64_t version; /* of a downloaded file; 0: the current one */
    bool git_as_is;  /* keep files in a downloaded directory that git would run (codebase/git_filter.h) */
};

void transfer_options_done(struct transfer_options *options);

/* Uploads. `local` "-" is standard input. `path` "" is the root of the codebase; a path that ends in "/" names a directory. Prints the answer. */
int transfer_put(struct api_call *call, const char *codebase_id, const char *local, const char *path,
                 const struct transfer_options *options, struct err *err);

/* Downloads. `local` "-" is standard output. A file is put into `local` under its own name if that is a directory; the contents of a directory are
 * put into `local`. */
int transfer_get(struct api_call *call, const char *codebase_id, const char *path, const char *local,
                 const struct transfer_options *options, struct err *err);
