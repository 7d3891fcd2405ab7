/* Which commit a project stands at, read from the files of its repository; git itself is not run, nor any of its configuration. */
#pragma once

#include <stdbool.h>

#define GIT_HEAD_MAX 72 /* with the NUL; room for SHA-256 */

/* Of the repository that `path` is in. False when there is none within the roots (base/root_dir.h), or it has no commit. */
bool git_head_read(const char *path, const char *const *roots, char ret[GIT_HEAD_MAX]);
