/*
 * Runs a function in a transaction, and repeats it as long as that is safe.
 *
 * The function may be called several times, so it must set its results in the cookie anew each time. If it returns a negative
 * errno, its changes are rolled back, and that errno and its `err` are the result.
 */
#pragma once

#include "store/db.h"
#include "store/store.h"
#include "store/store_metrics.h"

typedef int (*txn_fn)(struct db *db, void *cookie, struct err *err);

enum txn_flags {
    TXN_ONE_STATEMENT = 1, /* at most one of its statements writes, so it needs no transaction */
    TXN_REPEATABLE = 2,    /* running it twice has the same effect and result as running it once */
};

int txn_write(struct store *store, enum store_call call, unsigned flags, txn_fn fn, void *cookie, struct err *err);

/* Reads without a transaction, so data that belongs together must come from one statement. */
int txn_read(struct store *store, enum store_call call, txn_fn fn, void *cookie, struct err *err);
