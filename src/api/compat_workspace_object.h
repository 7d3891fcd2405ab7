/* A workspace as the API shows it. */
#pragma once

#include "api/compat_workspace_call.h"
#include "service/sandbox_care.h"

/* `health` may be NULL: it was not asked. */
json_t *compat_object(struct ws *ws, const struct sandbox_row *row, const struct sandbox_health *health);

/* The object as the answer, with its version as ETag. */
int compat_answer_object(struct ws *ws, int status, const struct sandbox_row *row);

/* Hint and details of an error of the life cycle, by its reason. */
int compat_explain(struct ws *ws, int r, const struct err *err, const struct sandbox_conflicts *conflicts);
