/*
 * What a sandbox changed goes into its codebase, and all who look at the codebase see it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct service;
struct sandbox_conn;

struct sync_result {
    uint64_t version; /* of the codebase; 0: nothing was synced */
    char **conflicts; /* owned, each too: paths */
    size_t conflict_count;
};

void sync_result_done(struct sync_result *result);

/* Over a connection to the conn's supervisor that nothing is going on on; `by` is the exec that ended. A conn that does not
 * sync: nothing, and 0. After a failure the connection is of no more use, the changes stay in the sandbox, and it is tried again by and
 * by. */
int sync_run(struct service *service, struct sandbox_conn *conn, int ctl_fd, const char *by, struct sync_result *ret,
             struct err *err);

/* By the janitor's thread, soon: a command ended that another server, now dead, had asked for. */
void sync_later(struct service *service, struct sandbox_conn *conn);

void sync_all_that_need_it(struct service *service);

/* Before it ends: what its last commands left in the background may have changed something. Failures are logged too; the changes stay. */
int sync_now(struct service *service, struct sandbox_conn *conn, struct err *err);

/* Files of a codebase were changed by somebody else than the conn `except` (or NULL): the sandboxes that run on it see it when this
 * returns. `count` 0: whatever there is may have changed. */
void sync_tell_siblings(struct service *service, const char *codebase_id, const struct sandbox_conn *except,
                        const char *const *paths, size_t count);
