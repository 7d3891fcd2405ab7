/*
 * Our other programs. They lie beside the one that runs, where they are installed (libexec), or where they were built.
 */
#pragma once

#include "base/err.h"

/* The absolute path of one by its name, to be freed. -ENOENT. */
int program_find(const char *name, char **ret_path, struct err *err);
