/*
 * The table of runtime/seccomp.h as an engine wants it: the same filter that bubblewrap gets, so that what a command may do does not
 * depend on what confines it.
 */
#pragma once

#include <jansson.h>

json_t *seccomp_profile_new(void);
