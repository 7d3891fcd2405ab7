/*
 * The table of runtime/seccomp.h in an engine's format: the same filter as for bubblewrap, so that the rights of a command do
 * not depend on its runtime.
 */
#pragma once

#include <jansson.h>

json_t *seccomp_profile_new(void);
