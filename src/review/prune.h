/*
 * Deletes what can no longer be undone: records of approvals that are older than the limit, and copies of the agent's merge
 * bases (meta/pre) that neither the change log nor a remaining record names. The delta's changes are not affected.
 *
 * A record's journal is deleted first: after a kill in between, the rest is not a record, and apply_txn_recover() removes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct apply_txn_codebase;

struct prune_options {
    int64_t before_ns; /* wall clock: later records stay */
    bool is_held;      /* as in struct approve_options */
    bool is_dry;
    const struct apply_txn_codebase *codebase; /* as in struct approve_options */
};

struct prune {
    size_t records, copies;
    uint64_t bytes;
};

/* Tells whether there may be work: without locks, and at little cost. */
bool prune_has_work(const char *delta_path, int64_t before_ns);

/* Adds to `ret`. -EBUSY as approve_run(). */
int prune_run(const char *delta_path, const struct prune_options *options, struct prune *ret, struct err *err);
