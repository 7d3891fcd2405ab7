/* Variables as options name them: NAME=VALUE, NAME for the value that it has here, and files of such lines. */
#pragma once

#include <stddef.h>

#include "base/err.h"

typedef void (*env_text_fn)(const char *name, size_t name_len, const char *value, void *cookie);

/* A name without a value here is passed over. -EINVAL for what is no name. */
int env_text_take(const char *text, env_text_fn fn, void *cookie, struct err *err);

/* Lines NAME=VALUE; empty ones and those that begin with # say nothing. Values are taken as they are. */
int env_text_take_file(const char *path, env_text_fn fn, void *cookie, struct err *err);
