/* A workspace as the API shows it. */
#pragma once

#include "api/ws_call.h"
#include "service/workspaces.h"

/* `health` may be NULL: it was not asked. */
json_t *ws_object(struct ws *ws, const struct sandbox_row *row, const struct workspace_health *health);

/* The object as the answer, with its version as ETag. */
int ws_answer_object(struct ws *ws, int status, const struct sandbox_row *row);

/* Hint and details of an error of the life cycle, by its reason. */
int ws_explain(struct ws *ws, int r, const struct err *err, const struct sandbox_conflicts *conflicts);
