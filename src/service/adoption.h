/*
 * Sandboxes whose rows and whose supervisors may say different things: after a server's start, and when the database was away. Those that run
 * are adopted; one that ran and does not any more is stopped if somebody ended it, else in ERROR, with the reason, or is started again if it
 * is one that restarts. One whose
 * supervisor lives and does not answer is in ERROR too, and is asked again until it does. What was being made is taken back, what was being
 * deleted is deleted.
 */
#pragma once

#include "base/err.h"

struct service;
struct sandbox_conn;

struct sandbox_row;

/* The sandbox of the conn's name, if it runs and answers. -ENOTCONN, -ENOENT: it does not run; otherwise somebody has it and is silent. The
 * conn's `life` is held. */
int adoption_take(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err);

/* The same, of one that somebody else may have started: does not wait for one that is only starting. */
int adoption_try(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err);

/* Finishes a start or a stop that a server began and did not live to finish, or could not write down. Waits for a supervisor that is starting
 * or ending. The row is read again. The conn's `life` is held. */
int adoption_settle(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err);

/* At the start, with some patience for those that are slow to answer. */
int adoption_run(struct service *service, struct err *err);

/* By and by. */
void adoption_reconcile(struct service *service);
