/*
 * Syncs a sandbox's changes into its codebase, and notifies the other sandboxes over it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct service;
struct sandbox_conn;

struct sync_result {
    uint64_t version; /* of the codebase; 0: nothing was synced */
    char **conflicts; /* owned, each item too: paths */
    size_t conflict_count;
};

void sync_result_done(struct sync_result *result);

/* Syncs over an idle connection to the conn's supervisor; `by` is the exec that ended. Returns 0 for a conn that does not sync. After a
 * failure the connection must be closed; the changes stay in the sandbox, and the janitor tries again. */
int sync_run(struct service *service, struct sandbox_conn *conn, int ctl_fd, const char *by, struct sync_result *ret,
             struct err *err);

/* Lets the janitor's thread sync soon. For a sandbox in which a command ended that an earlier server, now dead, had requested. */
void sync_later(struct service *service, struct sandbox_conn *conn);

void sync_all_that_need_it(struct service *service);

/* Call it before a sandbox ends: background processes of its last commands may have changed files. Failures are also logged; the changes
 * stay in the sandbox. */
int sync_now(struct service *service, struct sandbox_conn *conn, struct err *err);

/* Tells the running sandboxes over a codebase, except the conn `except` (may be NULL), that files have changed. They see the changes when
 * this returns. `count` 0: any file may have changed. */
void sync_tell_siblings(struct service *service, const char *codebase_id, const struct sandbox_conn *except,
                        const char *const *paths, size_t count);
