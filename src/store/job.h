/*
 * A piece of work on the database, as one transaction, tried again while that is safe.
 *
 * The function may be called several times: what it gives back through its cookie it sets anew each time. Whatever it did is
 * undone when it returns a negative errno; then that and its `err` are the result.
 */
#pragma once

#include "store/db.h"
#include "store/meter.h"
#include "store/store.h"

typedef int (*job_fn)(struct db *db, void *cookie, struct err *err);

enum job_flags {
    JOB_ONE_STATEMENT = 1, /* at most one of its statements writes, so it needs no transaction around it */
    JOB_REPEATABLE = 2,    /* done twice is the same as done once, in what it answers too */
};

int job_write(struct store *store, enum meter_call call, unsigned flags, job_fn fn, void *cookie, struct err *err);

/* Reads only, in no transaction: what belongs together comes from one statement. */
int job_read(struct store *store, enum meter_call call, job_fn fn, void *cookie, struct err *err);
