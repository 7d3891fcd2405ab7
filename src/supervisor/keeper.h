/*
 * The codebase that a sandbox's changes go to: the base of its fence, and who takes what the fence hands over.
 */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"
#include "codebase/codebase_txn.h"
#include "fence/sync_out.h"
#include "wire/sandbox_spec.h"

struct keeper;

/* Before the fence is made: finishes what a sync that was killed had begun, so that the delta and the codebase agree. NULL where the
 * spec names no codebase. Refuses one whose files are not the base. */
int keeper_open(const struct sandbox_spec *spec, struct keeper **ret, struct err *err);
void keeper_close(struct keeper *keeper); /* NULL is fine */

struct keeper_result {
    struct codebase_commit commit;
    struct sync_out_result handed;
};

void keeper_result_done(struct keeper_result *result);

/* What the sandbox changed since the last time becomes a version, for good. `by` may be "". Takes as long as it takes: not in the main
 * thread. */
int keeper_sync(struct keeper *keeper, struct fence *fence, const char *by, struct keeper_result *ret, struct err *err);
