/* Names with a text each, for what there is one of. */
#pragma once

#include "base/err.h"
#include "store/store.h"

/* ERR_NOT_FOUND. Free it. */
int meta_get(struct store *store, const char *name, char **ret_value, struct err *err);
int meta_set(struct store *store, const char *name, const char *value, struct err *err);

/* Sets it unless it is set; gives what it is then. Of several who try at once all get the same. Free it. */
int meta_keep(struct store *store, const char *name, const char *value, char **ret_value, struct err *err);
