/*
 * The environment of a command: the fixed variables, then the sandbox's, then the command's own. A later variable replaces an
 * earlier one of the same name.
 */
#pragma once

#include "base/cleanup.h"
#include "wire/sandbox_spec.h"

struct environment {
    char **vars; /* owned, NULL-terminated */
    size_t count, cap;
};

void environment_init(struct environment *environment, const struct sandbox_spec *spec, const char *const *more);
void environment_set(struct environment *environment, const char *assignment);
void environment_done(struct environment *environment);
