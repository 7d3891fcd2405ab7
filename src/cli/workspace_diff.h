/* The diff of a workspace as the API tells it, all its pages as one. */
#pragma once

#include <jansson.h>

#include "cli/api_verb.h"

/* Of what is at and below each path; none: all. A path without changes is -ENOENT. */
int workspace_diff_load(struct api_call *call, const char *id, char **paths, int path_count, json_t **ret, struct err *err);
