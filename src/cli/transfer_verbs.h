/* Verbs that copy files: parts of `codebase`, and `cp`. */
#pragma once

#include "cli/api_verb.h"
#include "cli/transfer.h"

extern const struct api_verb codebase_put_verb;
extern const struct api_verb codebase_get_verb;
