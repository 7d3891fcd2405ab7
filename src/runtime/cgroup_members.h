/*
 * The pids in a cgroup.
 *
 * The kernel reuses pids, within seconds on a host where many processes start and end. Between reading a list and sending a
 * signal a process may end, and the signal may hit another user's process.
 */
#pragma once

#include <stdbool.h>

/* Kills each process that `procs_path`, a file cgroup.procs, lists, and no other. Returns whether it lists any: call it
 * until it returns false. */
bool cgroup_members_kill(const char *procs_path);
