/* The diff of a workspace as the API tells it, all its pages as one. */
#pragma once

#include <jansson.h>

#include "cli/api_verb.h"

#define WORKSPACE_DIFF_HASH_MAX 65

/* What of it. Nothing counts as shown by this: who shows it says so afterwards, or when it is approved. */
enum workspace_diff_use {
    WORKSPACE_DIFF_WHOLE,
    WORKSPACE_DIFF_COUNTED, /* files and lines; there is no content in it */
};

/* An empty path is none, and not all. */
int workspace_diff_check_paths(char **paths, int path_count, struct err *err);

/* Of what is at and below each path; none: all. A path without changes is -ENOENT. */
int workspace_diff_load(struct api_call *call, const char *id, char **paths, int path_count, enum workspace_diff_use use,
                        json_t **ret, struct err *err);

/* Of all changes as they are now; nothing counts as shown by it. */
int workspace_diff_hash(struct api_call *call, const char *id, char ret[WORKSPACE_DIFF_HASH_MAX], struct err *err);
