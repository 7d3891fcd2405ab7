/*
 * Points at which a test can kill the process: AGENTFENSE_FAULT=<name>[:n] sends SIGKILL at the n-th call of fault("<name>").
 * Release builds have none.
 */
#pragma once

#include <stdbool.h>

#ifdef AGENTFENSE_FAULTS
void fault(const char *name);

/* Returns true if the variable is exactly this name, for tests that want another effect than a kill. */
bool fault_is(const char *name);
#else
static inline void fault(const char *name)
{
    (void) name;
}

static inline bool fault_is(const char *name)
{
    (void) name;
    return false;
}
#endif
