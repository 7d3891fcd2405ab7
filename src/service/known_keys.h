/* Checks the keys of a JSON object from a client. An unknown key would be a request that the server silently ignores, so it is refused. */
#pragma once

#include <jansson.h>

#include "base/err.h"

/* `keys` is ended by NULL; `what` names the object, e.g. "a rule". Returns 0, or -EINVAL with "'x' is no key of a rule; there are a, b".
 * Returns 0 if `object` is NULL or not an object. */
int known_keys_check(const json_t *object, const char *const *keys, const char *what, struct err *err);
