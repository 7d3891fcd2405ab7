/*
 * Syncs a sandbox's changes to its codebase, the base of its fence.
 */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"
#include "codebase/codebase_txn.h"
#include "fence/sync_out.h"
#include "wire/sandbox_spec.h"

struct codebase_sync;

/* Call it before the fence is made: it finishes the work of a sync that was killed, so that delta and codebase agree.
 * Returns NULL if the spec names no codebase. Refuses a codebase whose files are not the base. */
int codebase_sync_open(const struct sandbox_spec *spec, struct codebase_sync **ret, struct err *err);
void codebase_sync_close(struct codebase_sync *codebase_sync); /* NULL is allowed */

struct codebase_sync_result {
    struct codebase_commit commit;
    struct sync_out_result handed;
};

void codebase_sync_result_done(struct codebase_sync_result *result);

/* Makes a durable version of the sandbox's changes since the last sync. `by` may be "". Blocks, so not for the main thread. */
int codebase_sync_run(struct codebase_sync *codebase_sync, struct fence *fence, const char *by,
                      struct codebase_sync_result *ret, struct err *err);
