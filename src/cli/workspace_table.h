/* A list that a route under /api/v1 answers, as a verb prints it: a table, ids alone with -q, the answer as it is with --json. */
#pragma once

#include <jansson.h>

#include "cli/api_verb.h"
#include "cli/grid.h"

struct workspace_table {
    const char *list; /* the key of the answer that has it */
    const char *id;   /* the key of each that -q prints; NULL: it is a table with -q, too */
    const char *const *titles;
    void (*add_row)(struct grid *grid, const json_t *item);
};

void workspace_table_print(const struct workspace_table *table, const struct api_call *call, json_t *answer);
