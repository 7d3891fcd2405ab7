/*
 * Makes rows agree with supervisors when the two may differ: after a server's start, and after the database was away.
 *
 * A sandbox that runs is adopted. A sandbox that ran and has ended is set to stopped if a user ended it; otherwise it is started again if
 * it restarts, or set to ERROR with the reason. A sandbox whose supervisor lives but does not answer is set to ERROR too, and the janitor
 * asks it again until it answers. A half-made sandbox is removed, and a half-finished deletion is completed.
 */
#pragma once

#include "base/err.h"

struct service;
struct sandbox_conn;

struct sandbox_row;

/* Adopts the conn's sandbox if it runs and answers. -ENOTCONN, -ENOENT: it does not run. Other errors: its supervisor lives, but does not
 * answer or has another protocol. The caller holds the conn's `life`. */
int adoption_take(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err);

/* The same for a sandbox that another process may have started. Does not wait for a supervisor that is still starting. */
int adoption_try(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err);

/* Finishes a start or a stop that an earlier server began and could not complete or record. Waits for a supervisor that is starting or
 * ending, and reads the row again. The caller holds the conn's `life`. */
int adoption_settle(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err);

/* For the start of the server: waits some seconds for supervisors that answer slowly. */
int adoption_run(struct service *service, struct err *err);

/* For the janitor, in every round. */
void adoption_reconcile(struct service *service);
