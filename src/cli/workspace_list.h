/* Workspaces as a table, ids alone with -q, or as the API lists them with --json. */
#pragma once

#include "cli/api_verb.h"

/* `status`, `owner`: NULL for any. */
int workspace_list(struct api_call *call, const char *status, const char *owner, struct err *err);
