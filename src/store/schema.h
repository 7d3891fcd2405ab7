/*
 * The tables, and how an older database becomes a newer one: by numbered steps, each in a transaction. Private to this module.
 */
#pragma once

#include "store/db.h"

/* The version this program writes. */
int schema_latest(void);

/* 0 when there is nothing yet. Refuses one that is newer than we know (ERR_FAILED_PRECONDITION). Changes nothing. */
int schema_check(struct db *db, const char *shown, int64_t *ret_version, struct err *err);

/* Takes the steps that are missing up to `wanted`. Several hosts may start at once: each step is taken by one of them. */
int schema_migrate(struct db *db, const char *shown, int wanted, struct err *err);
