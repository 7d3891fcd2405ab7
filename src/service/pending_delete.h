/*
 * Codebases that are being deleted: a file each, `condemned-<id>`, where the sandboxes are.
 *
 * Files of a codebase without a row may be somebody's work, when the database is an older copy of itself; or what is left of a deletion
 * whose server was killed between the row and the files. This tells them apart.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct service;

/* Durable when it returns 0. */
int pending_delete_add(struct service *service, const char *codebase_id, struct err *err);
bool pending_delete_has(const struct service *service, const char *codebase_id);
void pending_delete_remove(struct service *service, const char *codebase_id);

/* At the start, when each was dealt with. */
void pending_delete_forget_all(struct service *service);
