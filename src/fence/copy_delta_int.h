/* The inside of copy_delta. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"

#define COPY "copy"
#define ORIGINAL "copy/original"
#define STAGED "copy/staged"

/* Copies content, mode and times; there must be nothing at `to`. */
int copy_delta_file(int from_dir, const char *name, int to_dir, const char *to, const struct stat *st);
int copy_delta_link(int from_dir, const char *name, int to_dir, const char *to, const struct stat *st);

/* Stats the path beneath `dir`. Returns false if there is nothing, or an error. */
bool copy_delta_stat(int dir, const char *path, struct stat *ret);
