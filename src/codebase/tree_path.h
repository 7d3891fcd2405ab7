/*
 * A path in a codebase as the API takes it: bytes, cleaned lexically, a leading slash is harmless. What comes out is relative
 * ("a/b", or "" for the root), so that it can be opened beneath `files`, and within the bounds that every walk relies on.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define TREE_PATH_MAX 3500
#define TREE_DEPTH_MAX 128

/* A NUL, ".." above the root, names of more than 255 bytes, more than the bounds above, and names beginning ".wh.", which mean
 * something to the fence, are refused: ERR_INVALID_ARGUMENT. */
int tree_path_clean(const char *path, size_t len, struct buf *out, struct err *err);

/* The same, where the root itself will not do. */
int tree_path_clean_entry(const char *path, size_t len, struct buf *out, struct err *err);

/* Whether `path` is beneath `dir` ("" is the root) and not `dir` itself. Both clean. */
bool tree_path_is_in(const char *dir, const char *path);

/* Errors about a path, which is a stranger's: shown escaped, and not all of it. "<what> '<path>': <strerror>" and "'<path>' <why>". */
int tree_path_errno(struct err *err, int r, const char *what, const char *path);
int tree_path_reject(struct err *err, enum err_code code, int r, const char *path, const char *why);
