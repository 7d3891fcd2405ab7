/*
 * The tables, and the numbered steps that migrate an older database, each in a transaction. Private to this module.
 */
#pragma once

#include "store/db.h"

/* The version this program writes. */
int schema_latest(void);

/* Returns version 0 for an empty database. ERR_FAILED_PRECONDITION for a newer version than ours. Changes nothing. */
int schema_check(struct db *db, const char *shown, int64_t *ret_version, struct err *err);

/* Runs the missing steps up to `wanted`. If several hosts start at once, one of them runs each step. */
int schema_migrate(struct db *db, const char *shown, int wanted, struct err *err);
