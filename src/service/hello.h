/* A supervisor's greeting of a new connection, with the state of its sandbox. */
#pragma once

#include "base/err.h"
#include "wire/ctl_proto.h"

/* Waits for the greeting, and then until the sandbox has booted. -ETIMEDOUT: the supervisor does not answer. */
int hello_await(int fd, int timeout_ms, enum ctl_state *ret, struct err *err);
