/*
 * The processes of a cgroup, by number.
 *
 * A number is a process only for as long as that lives; then it is given out again, within seconds on a host where many come and go. Between
 * reading a list and sending a signal a process may end, and another one, of somebody else's, be killed for it.
 */
#pragma once

#include <stdbool.h>

/* Kills each process that `procs_path`, a file cgroup.procs, lists, and no other. Returns whether it lists any: they are gone when it lists
 * none any more, so it is to be called again. */
bool cgroup_members_kill(const char *procs_path);
