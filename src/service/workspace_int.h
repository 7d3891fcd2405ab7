/*
 * Inside the room: steps of a workspace's life. The ward's `life` is held by whoever calls these, unless it says otherwise.
 */
#pragma once

#include "service/service_int.h"
#include "service/workspaces.h"

struct workspace_totals;

/* Starts its supervisor over the delta that is there; the row is the caller's to write. `base_fd`: the scope as it was checked, or -1: its
 * supervisor opens it, and refuses if it is not the directory that the delta was made over. */
int workspace_boot(struct service *service, struct ward *ward, const struct sandbox_row *row, int base_fd, int cancel_fd,
                   struct err *err);

/* Writes the step, in the store and in the row. */
int workspace_step(struct service *service, struct sandbox_row *row, unsigned from, int64_t version, enum sandbox_state to,
                   const char *reason, struct err *err);

/* Whether the row is still what the caller has seen; 0 is any. */
int workspace_check_version(const struct sandbox_row *row, int64_t version, struct err *err);

/* Who was killed while it started one leaves a supervisor that the row knows nothing of, and that holds its files. Nobody was told of
 * it: it is ended. */
void workspace_end_stray(struct service *service, struct ward *ward, const struct sandbox_row *row);

/* workspaces_check() without its mount; takes no lock. */
void workspace_ask_supervisor(struct service *service, const char *id, struct workspace_health *ret);

/* ---- workspace_remove.c ---- */

/* Whatever it is, it is deleted afterwards, its processes and its mount gone; its changes too, if there is no trash. Refused while an
 * approval has left something in the project that cannot be tidied up. */
int workspace_remove(struct service *service, struct ward *ward, struct sandbox_row *row, int64_t version, struct err *err);

/* Directories whose workspace is gone, and which could not be removed with it. */
void workspaces_sweep(struct service *service);

/* The changes of a deleted one go for good. 1: they did; 0: they had. */
int workspace_purge(struct service *service, struct ward *ward, const char *id, struct err *err);

/* ---- workspace_life.c ---- */

/* Whatever it is, it is stopped afterwards, if it was active. */
int workspace_halt(struct service *service, struct ward *ward, struct sandbox_row *row, int64_t version, struct err *err);

/* With `life` taken and the row read again; the ward in `ret_ward` is to be unlocked and let go by workspace_release(). */
int workspace_hold(struct service *service, const struct caller *caller, const char *id, struct ward **ret_ward,
                   struct sandbox_row *ret, struct err *err);
void workspace_release(struct ward *ward);

/* Without the lock: it ended, and nobody asked for that. */
void workspace_ended(struct service *service, struct ward *ward, const char *reason);

/* At the start, and by the janitor. */
int workspaces_recover(struct service *service, struct err *err);
void workspaces_tend(struct service *service);
