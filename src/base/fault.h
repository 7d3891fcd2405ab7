/*
 * Places where a test can make the process die: AGENTFENSE_FAULT=<name>[:n] kills it at the n-th pass of fault("<name>").
 * Release builds have none.
 */
#pragma once

#include <stdbool.h>

#ifdef AGENTFENSE_FAULTS
void fault(const char *name);

/* Whether the variable is this name: for what a test wants otherwise than by dying. */
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
