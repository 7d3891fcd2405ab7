/* What a supervisor says to whoever connects: that it is there, and in which state its sandbox is. */
#pragma once

#include "base/err.h"
#include "wire/ctl_proto.h"

/* Waits for it, and then for the end of the sandbox's boot. -ETIMEDOUT: it is silent. */
int hello_await(int fd, int timeout_ms, enum ctl_state *ret, struct err *err);
