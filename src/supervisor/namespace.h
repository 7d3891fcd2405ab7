/*
 * The supervisor's own mount namespace, in which the fence is mounted. The namespace ends with its last process, so no mount is
 * left on the host, whatever is killed.
 *
 * Without root it comes with a user namespace in which we keep our ids, but may mount. Call it before the first thread is
 * created.
 */
#pragma once

#include "base/err.h"

int namespace_enter(struct err *err);
