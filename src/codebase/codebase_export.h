/* Exports a codebase, or a directory of it, as a tar stream. Not a snapshot: each file is consistent, but a version made
 * meanwhile may appear partially. */
#pragma once

#include <stddef.h>

#include "codebase/codebase.h"

enum codebase_export_filter { CODEBASE_EXPORT_PLAIN, CODEBASE_EXPORT_GZIP, CODEBASE_EXPORT_ZSTD };

/* Consumes all bytes and returns 0, or a negative errno, which ends the export. */
typedef int (*codebase_export_fn)(const void *bytes, size_t len, void *cookie);

/* Names in the archive are relative to `path` (NULL: the root). */
int codebase_export(struct codebase *cb, const char *path, enum codebase_export_filter filter, codebase_export_fn fn,
                    void *cookie, struct err *err);
