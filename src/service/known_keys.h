/* The keys that a JSON object of a stranger may have. A word that nobody knows is a wish that nobody would fulfil, so it is refused. */
#pragma once

#include <jansson.h>

#include "base/err.h"

/* `keys` is ended by NULL; `what` is what the object is, e.g. "a rule". 0, or -EINVAL with "'x' is no key of a rule; there are a, b". No
 * object has no wrong key. */
int known_keys_check(const json_t *object, const char *const *keys, const char *what, struct err *err);
