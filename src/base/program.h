/*
 * Finds our other programs: beside the running one, in libexec if it is installed, or in the build tree.
 */
#pragma once

#include "base/err.h"

/* Returns the absolute path of the program, which the caller frees. ERR_NOT_FOUND if it is not installed. */
int program_find(const char *name, char **ret_path, struct err *err);
