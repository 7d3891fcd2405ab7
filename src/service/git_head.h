/* Reads a project's current commit from the files of its repository, without running git or using the repository's configuration. */
#pragma once

#include <stdbool.h>

#define GIT_HEAD_MAX 72 /* with the NUL; room for SHA-256 */

/* Reads the commit of the repository that contains `path`. Returns false if the roots (base/root_dir.h) contain no such repository, or it
 * has no commit. */
bool git_head_read(const char *path, const char *const *roots, char ret[GIT_HEAD_MAX]);
