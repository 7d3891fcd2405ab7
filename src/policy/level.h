/*
 * What a sandbox may do with a path. Ordered: a higher level includes the lower ones.
 */
#pragma once

#include <stdbool.h>

enum level {
    LEVEL_NONE, /* the path does not exist for the sandbox */
    LEVEL_VIEW, /* listed and stat'ed, contents closed */
    LEVEL_READ,
    LEVEL_WRITE,
};

#define LEVEL_NAMES "none, view, read, write"

const char *level_name(enum level level);

/* Knows the four lower-case names and nothing else. */
bool level_parse(const char *name, enum level *ret_level);
