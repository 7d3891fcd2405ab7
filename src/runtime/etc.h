/*
 * The few files of /etc that are written for a sandbox rather than shown from the host: who is who, and what names mean. Each
 * is text for a spec; nothing of the host's users or network is in them, except its name servers when the network is the
 * host's.
 */
#pragma once

#include "base/buf.h"
#include "runtime/runtime_spec.h"

struct etc_file {
    const char *path; /* inside */
    /* Adds the text. Negative: the file is left out. `root` is where the host's own /etc is found: "" but in tests. */
    int (*write)(const struct runtime_spec *spec, const char *root, struct buf *out);
};

const struct etc_file *etc_files(size_t *ret_count);
