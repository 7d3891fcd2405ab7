/*
 * The files of /etc that are generated for a sandbox instead of shown from the host: users, groups and names. They contain
 * nothing of the host's users or network, except its name servers if the sandbox uses the host's network.
 */
#pragma once

#include "base/buf.h"
#include "runtime/runtime_spec.h"

struct etc_file {
    const char *path; /* path in the sandbox */
    /* Adds the text. Negative: the file is omitted. `root` is the prefix of the host's /etc: "" except in tests. */
    int (*write)(const struct runtime_spec *spec, const char *root, struct buf *out);
};

const struct etc_file *etc_files(size_t *ret_count);
