/*
 * The codebase that a sandbox's changes go to: the base of its fence, and who takes what the fence hands over.
 */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"
#include "codebase/codebase_txn.h"
#include "fence/sync_out.h"
#include "wire/sandbox_spec.h"

struct codebase_sync;

/* Before the fence is made: finishes what a sync that was killed had begun, so that the delta and the codebase agree. NULL where the
 * spec names no codebase. Refuses one whose files are not the base. */
int codebase_sync_open(const struct sandbox_spec *spec, struct codebase_sync **ret, struct err *err);
void codebase_sync_close(struct codebase_sync *codebase_sync); /* NULL is fine */

struct codebase_sync_result {
    struct codebase_commit commit;
    struct sync_out_result handed;
};

void codebase_sync_result_done(struct codebase_sync_result *result);

/* What the sandbox changed since the last time becomes a version, for good. `by` may be "". Takes as long as it takes: not in the main
 * thread. */
int codebase_sync_run(struct codebase_sync *codebase_sync, struct fence *fence, const char *by,
                      struct codebase_sync_result *ret, struct err *err);
