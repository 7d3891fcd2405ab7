/*
 * A shared library that is loaded when it is first needed. Each library that a program is linked with costs a third of a
 * millisecond at every start and private pages in every process; most processes of this program never open
 * a database, unpack an archive or compare texts.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct library_symbol {
    const char *name;
    void *ret; /* a function pointer's place */
};

/* Loads the file and looks up all of the symbols. ERR_FAILED_PRECONDITION with `package`, what to install. */
int library_load(const char *file, const char *package, const struct library_symbol *symbols, size_t count, struct err *err);
