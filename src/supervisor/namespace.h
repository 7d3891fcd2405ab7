/*
 * The supervisor's own mount namespace, in which the fence is mounted. It ends with the last process in it, so whatever is
 * killed, no mount is left on the host.
 *
 * Without root it comes with a user namespace in which we are who we were, but may mount. To be called before the first thread.
 */
#pragma once

#include "base/err.h"

int namespace_enter(struct err *err);
