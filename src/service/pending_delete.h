/*
 * Marks codebases that are being deleted, with a file `condemned-<id>` for each in the state directory.
 *
 * Files of a codebase without a row may be a user's work, if the database was restored from an older copy; or they may be left of a
 * deletion, if the server was killed between removing the row and the files. The mark distinguishes the two.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct service;

/* Durable when it returns 0. */
int pending_delete_add(struct service *service, const char *codebase_id, struct err *err);
bool pending_delete_has(const struct service *service, const char *codebase_id);
void pending_delete_remove(struct service *service, const char *codebase_id);

/* At the start, after recovery has dealt with each. */
void pending_delete_forget_all(struct service *service);
