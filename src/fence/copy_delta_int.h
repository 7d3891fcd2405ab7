/* What the files of copy_delta share. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"

#define COPY "copy"
#define ORIGINAL "copy/original"
#define STAGED "copy/staged"

/* Content, mode and times; there must be nothing at `to`. */
int copy_delta_file(int from_dir, const char *name, int to_dir, const char *to, const struct stat *st);
int copy_delta_link(int from_dir, const char *name, int to_dir, const char *to, const struct stat *st);

/* What is at the path beneath `dir`, if anything. */
bool copy_delta_stat(int dir, const char *path, struct stat *ret);
