/*
 * The environment of a command: what every command in a sandbox has, then what the sandbox was given, then what this command
 * was given. Of two with one name the later holds.
 */
#pragma once

#include "base/cleanup.h"
#include "wire/sandbox_spec.h"

struct environment {
    char **vars; /* owned, ended by NULL */
    size_t count, cap;
};

void environment_init(struct environment *environment, const struct sandbox_spec *spec, const char *const *more);
void environment_set(struct environment *environment, const char *assignment);
void environment_done(struct environment *environment);
