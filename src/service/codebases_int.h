/*
 * Private to the module: functions that several codebase files use.
 */
#pragma once

#include "codebase/codebase.h"
#include "codebase/codebase_txn.h"
#include "service/codebases.h"

struct service;
struct sandbox_conn;

/* Opens a codebase that the caller sees and whose files are on this host. Free `ret_owner`; it may be NULL. */
int codebases_open_dir(struct service *service, const struct caller *caller, const char *id, struct codebase **ret,
                       char **ret_owner, struct err *err);

/* Call it after a version was created, by a call or by the sync of the sandbox `except`: updates the row and notifies the sandboxes that
 * run over the codebase. */
void codebases_note_commit(struct service *service, struct codebase *codebase, const struct codebase_commit *commit,
                           const struct sandbox_conn *except);

/* Updates only the row. */
int codebases_refresh_row(struct service *service, struct codebase *codebase, struct err *err);
