/*
 * Inside the module: the steps of a sandbox's life. Whoever takes one holds the conn's `life`, unless it says otherwise.
 */
#pragma once

#include "base/err.h"
#include "service/caller.h"
#include "service/sandbox_conn.h"
#include "service/sandboxes.h"
#include "store/sandbox_row.h"

struct service;

/* With `life` taken and the row read again, of a sandbox of this host whatever its status; life_release() lets go. */
int life_hold(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret_conn,
              struct sandbox_row *ret, struct err *err);
void life_release(struct sandbox_conn *conn);

/* Locks the directory of one that does not run: until the lock is closed, neither `agentfense run` nor another command starts, changes or removes
 * it. Waits a moment. ERR_FAILED_PRECONDITION, SANDBOX_IN_USE. -1 in `ret_lock_fd`: it has no directory. */
int life_lock_dir(const struct service *service, const char *id, int *ret_lock_fd, struct err *err);

/* Writes the step, in the store and in the row. */
int life_move(struct service *service, struct sandbox_row *row, unsigned from, enum sandbox_status to, const char *reason,
              struct err *err);
/* It is at rest, and approved or rejected from now on. */
int life_decide(struct service *service, struct sandbox_row *row, enum sandbox_decision decision, struct err *err);

/* Whether the row is still what the caller has seen; 0 is any. ERR_ABORTED, VERSION_MISMATCH. */
int life_check_version(const struct sandbox_row *row, int64_t version, struct err *err);
/* "sandbox ID is STATE, and cannot be VERBED", INVALID_STATE. */
int life_refuse_state(const struct sandbox_row *row, const char *verbed, struct err *err);

/* Starts its supervisor over the delta that is there; the row is the caller's to write. `base_fd`: the directory as it was checked, or -1: its
 * supervisor opens it, and refuses if it is not the one that the delta was made over. */
int life_boot(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, int base_fd, int cancel_fd,
              struct err *err);
/* Where its files are wanted on the host, and not there already: a server that was killed leaves them. */
int life_show_on_host(struct service *service, const struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err);

/* From rest to running: what was decided about it is open again. */
int life_start(struct service *service, const struct caller *caller, struct sandbox_conn *conn, struct sandbox_row *row,
               struct err *err);
/* Syncs what it can, ends its processes and its mount. "sandbox is not running". */
int life_stop(struct service *service, const struct caller *caller, struct sandbox_conn *conn, struct sandbox_row *row,
              struct err *err);

/* Ends whatever runs of it; the row is the caller's to write. */
void life_end(struct service *service, struct sandbox_conn *conn);
/* Who was killed while it started one leaves a supervisor that the row knows nothing of, and that holds its files. Nobody was told of
 * it: it is ended. */
void life_end_stray(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row);

/* It does not run any more, and somebody wanted that: its row says so. */
int life_note_stop(struct service *service, struct sandbox_row *row, struct err *err);

/* Without the lock: it ended, and this server did not ask for that. Somebody else did if there is no reason: then it is stopped, else in ERROR. */
void life_ended(struct service *service, struct sandbox_conn *conn, const char *reason);

/* ---- sandbox_remove.c ---- */

/* Ends it, and gives up its files: now, or when their time in the trash is over. Refused while an approval has left something in the project
 * that cannot be tidied up. One that is being deleted already is deleted then. */
int life_delete(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, bool purges, struct err *err);

/* The files of a deleted one go for good. 1: they did; 0: they had. */
int life_purge(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err);

/* Directories of those that could not be made, and which could not be removed at the time. */
void life_sweep(struct service *service);
