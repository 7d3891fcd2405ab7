/* Named texts, for facts that exist once in a database. */
#pragma once

#include "base/err.h"
#include "store/store.h"

/* ERR_NOT_FOUND. Free the value. */
int meta_get(struct store *store, const char *name, char **ret_value, struct err *err);
int meta_set(struct store *store, const char *name, const char *value, struct err *err);

/* Sets the value if there is none, and returns the stored one. All concurrent callers get the same. Free it. */
int meta_keep(struct store *store, const char *name, const char *value, char **ret_value, struct err *err);
