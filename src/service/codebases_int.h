/*
 * Inside the module: what the parts of the codebases share.
 */
#pragma once

#include "codebase/codebase.h"
#include "codebase/codebase_txn.h"
#include "service/codebases.h"

struct service;
struct sandbox_conn;

/* A codebase that the caller sees and whose files are on this host. `ret_owner`, to be freed, may be NULL. */
int codebases_open_dir(struct service *service, const struct caller *caller, const char *id, struct codebase **ret,
                       char **ret_owner, struct err *err);

/* A version was made, by a call or (`except`) by a sandbox's sync: the row says so, and the sandboxes that run on it know. */
void codebases_note_commit(struct service *service, struct codebase *codebase, const struct codebase_commit *commit,
                           const struct sandbox_conn *except);

/* Only the row. */
int codebases_refresh_row(struct service *service, struct codebase *codebase, struct err *err);
