/*
 * A piece of work on the database, as one transaction, tried again while that is safe.
 *
 * The function may be called several times: what it gives back through its cookie it sets anew each time. Whatever it did is
 * undone when it returns a negative errno; then that and its `err` are the result.
 */
#pragma once

#include "store/db.h"
#include "store/store.h"
#include "store/store_metrics.h"

typedef int (*txn_fn)(struct db *db, void *cookie, struct err *err);

enum txn_flags {
    TXN_ONE_STATEMENT = 1, /* at most one of its statements writes, so it needs no transaction around it */
    TXN_REPEATABLE = 2,    /* done twice is the same as done once, in what it answers too */
};

int txn_write(struct store *store, enum store_call call, unsigned flags, txn_fn fn, void *cookie, struct err *err);

/* Reads only, in no transaction: what belongs together comes from one statement. */
int txn_read(struct store *store, enum store_call call, txn_fn fn, void *cookie, struct err *err);
