/*
 * Inside the room: what the parts of the shelf share.
 */
#pragma once

#include "codebase/codebase.h"
#include "codebase/codebase_txn.h"
#include "service/shelf.h"

struct service;
struct ward;

/* A codebase that the caller sees and whose files are on this host. `ret_owner`, to be freed, may be NULL. */
int shelf_open(struct service *service, const struct caller *caller, const char *id, struct codebase **ret, char **ret_owner,
               struct err *err);

/* A version was made, by a call or (`except`) by a sandbox's sync: the row says so, and the sandboxes that run on it know. */
void shelf_note_commit(struct service *service, struct codebase *codebase, const struct codebase_commit *commit,
                       const struct ward *except);

/* Only the row. */
int shelf_refresh_row(struct service *service, struct codebase *codebase, struct err *err);
