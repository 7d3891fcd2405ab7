/* Parses variables as options give them: NAME=VALUE, NAME for its value in our environment, and files of such lines. */
#pragma once

#include <stddef.h>

#include "base/err.h"

typedef void (*env_text_fn)(const char *name, size_t name_len, const char *value, void *cookie);

/* Ignores a name that our environment lacks. -EINVAL for an invalid name. */
int env_text_take(const char *text, env_text_fn fn, void *cookie, struct err *err);

/* Reads lines NAME=VALUE, without unquoting. Ignores empty lines and those that begin with #. */
int env_text_take_file(const char *path, env_text_fn fn, void *cookie, struct err *err);
