/*
 * What a sandbox may do with a path. The levels are ordered: a higher one includes the lower ones.
 */
#pragma once

#include <stdbool.h>

enum level {
    LEVEL_NONE, /* the path does not exist for the sandbox */
    LEVEL_VIEW, /* it is listed and can be stat'ed; its content cannot be read */
    LEVEL_READ,
    LEVEL_WRITE,
};

#define LEVEL_NAMES "none, view, read, write"

const char *level_name(enum level level);

/* Accepts the four lower-case names only. */
bool level_parse(const char *name, enum level *ret_level);
