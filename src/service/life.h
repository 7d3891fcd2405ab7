/*
 * Private to the module: the steps of a sandbox's life. The caller holds the conn's `life` unless noted otherwise.
 */
#pragma once

#include "base/err.h"
#include "service/caller.h"
#include "service/sandbox_conn.h"
#include "service/sandboxes.h"
#include "store/sandbox_row.h"

struct service;

/* Takes `life` of a sandbox of this host, whatever its status, and reads its row again. Release it with life_release(). */
int life_hold(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret_conn,
              struct sandbox_row *ret, struct err *err);
void life_release(struct sandbox_conn *conn);

/* Locks the directory of a sandbox that does not run: until the lock is closed, neither `agentfense run` nor another command can start,
 * change or remove it. Waits up to two seconds. ERR_FAILED_PRECONDITION, SANDBOX_IN_USE. `ret_lock_fd` is -1 if it has no directory. */
int life_lock_dir(const struct service *service, const char *id, int *ret_lock_fd, struct err *err);

/* Writes a new status to the store and to `row`. */
int life_move(struct service *service, struct sandbox_row *row, unsigned from, enum sandbox_status to, const char *reason,
              struct err *err);
/* Marks a sandbox at rest as approved or rejected. */
int life_decide(struct service *service, struct sandbox_row *row, enum sandbox_decision decision, struct err *err);

/* Checks that the row still has the version that the caller knows; 0 accepts any. ERR_ABORTED, VERSION_MISMATCH. */
int life_check_version(const struct sandbox_row *row, int64_t version, struct err *err);
/* "sandbox ID is STATE, and cannot be VERBED", INVALID_STATE. */
int life_refuse_state(const struct sandbox_row *row, const char *verbed, struct err *err);

/* Starts its supervisor over the existing delta; the caller writes the row. `base_fd` is the directory that was checked. With -1 the
 * supervisor opens it, and refuses if it is not the one that the delta was made over. */
int life_boot(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, int base_fd, int cancel_fd,
              struct err *err);
/* Mounts its files on the host if that is requested and not done yet: a killed server leaves the mount in place. */
int life_show_on_host(struct service *service, const struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err);

/* Starts a sandbox at rest, and resets its decision to open. */
int life_start(struct service *service, const struct caller *caller, struct sandbox_conn *conn, struct sandbox_row *row,
               struct err *err);
/* Syncs what it can, then ends its processes and its mount. "sandbox is not running". */
int life_stop(struct service *service, const struct caller *caller, struct sandbox_conn *conn, struct sandbox_row *row,
              struct err *err);

/* Ends its supervisor and processes; the caller writes the row. */
void life_end(struct service *service, struct sandbox_conn *conn);
/* A server that was killed while it started a sandbox may leave a supervisor that the row does not know and that holds the sandbox's files.
 * Nobody was told that the sandbox runs, so this ends the supervisor. */
void life_end_stray(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row);

/* Sets the row of a sandbox that has ended on request to stopped. */
int life_note_stop(struct service *service, struct sandbox_row *row, struct err *err);

/* Without `life`: the sandbox ended, and this server did not request that. With a reason it is set to ERROR; without one, another process
 * ended it, and it is set to stopped. */
void life_ended(struct service *service, struct sandbox_conn *conn, const char *reason);

/* ---- sandbox_remove.c ---- */

/* Ends it, and removes its files: now, or when their time in the trash is over. Refuses while files that a failed approval left in the
 * project cannot be cleaned up. Completes a deletion that was interrupted. */
int life_delete(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, bool purges, struct err *err);

/* Removes the files of a deleted sandbox for good. Returns 1 if it removed them, 0 if there were none. */
int life_purge(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err);

/* Removes directories of sandboxes whose creation failed and which could not be removed then. */
void life_sweep(struct service *service);
