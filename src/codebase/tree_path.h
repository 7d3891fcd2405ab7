/*
 * Paths in a codebase as the API accepts them: bytes, cleaned lexically, with an optional leading slash. The result is relative
 * ("a/b", or "" for the root), so that it can be opened beneath `files`, and within the limits that every walk relies on.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define TREE_PATH_MAX 3500
#define TREE_DEPTH_MAX 128

/* Refuses with ERR_INVALID_ARGUMENT: a NUL, ".." above the root, names of more than 255 bytes, paths beyond the limits above,
 * and names that start with ".wh.", which the fence reserves. */
int tree_path_clean(const char *path, size_t len, struct buf *out, struct err *err);

/* Like tree_path_clean(), but refuses the root. */
int tree_path_clean_entry(const char *path, size_t len, struct buf *out, struct err *err);

/* Returns true if `path` is beneath `dir` ("" is the root) and not `dir` itself. Both must be clean. */
bool tree_path_is_in(const char *dir, const char *path);

/* Errors about an untrusted path, which is escaped and shortened: "<what> '<path>': <strerror>" and "'<path>' <why>". */
int tree_path_errno(struct err *err, int r, const char *what, const char *path);
int tree_path_reject(struct err *err, enum err_code code, int r, const char *path, const char *why);
