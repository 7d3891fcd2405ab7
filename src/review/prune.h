/*
 * Forgetting what nobody can undo any more: records of approvals that are older than the time for that, and copies of what the agent
 * worked from (meta/pre) that neither the diary nor a record that stays speaks of. What is left of a delta's changes loses nothing by it.
 *
 * A record's journal goes first: killed in between, what is left is no record, and the next one who looks removes it (apply_txn_recover()).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct apply_txn_codebase;

struct prune_options {
    int64_t before_ns; /* wall clock: what was done from then on stays */
    bool is_held;      /* as in struct approve_options */
    bool is_dry;
    const struct apply_txn_codebase *codebase; /* as in struct approve_options */
};

struct prune {
    size_t records, copies;
    uint64_t bytes;
};

/* Whether there could be anything: without locks, and without reading much. */
bool prune_has_work(const char *delta_path, int64_t before_ns);

/* Adds to `ret`. -EBUSY as approve_run(). */
int prune_run(const char *delta_path, const struct prune_options *options, struct prune *ret, struct err *err);
