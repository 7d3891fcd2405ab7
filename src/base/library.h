/*
 * A shared library that is loaded at its first use. Every library that a program links costs a third of a millisecond at each
 * start and private pages in each process, and most of our processes never open a database, unpack an archive or compare texts.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct library_symbol {
    const char *name;
    void *ret; /* where to store the function pointer */
};

/* Loads the library and resolves all symbols. On failure sets ERR_FAILED_PRECONDITION and names `package` as the package to
 * install. */
int library_load(const char *file, const char *package, const struct library_symbol *symbols, size_t count, struct err *err);
