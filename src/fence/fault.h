/*
 * Places where a test can make the process die: AGENTFENSE_FAULT=<name>[:n] kills it at the n-th pass of fault("<name>").
 * Release builds have none.
 */
#pragma once

#ifdef AGENTFENSE_FAULTS
void fault(const char *name);
#else
static inline void fault(const char *name)
{
    (void) name;
}
#endif
