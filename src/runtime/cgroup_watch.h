/*
 * Notifies when a sandbox hits a limit of its cgroup: a process was killed for memory, or a fork refused for pids.
 *
 * There is one descriptor to poll. If it is readable, cgroup_watch_read() may return something new. v2 notifies at once through
 * inotify. v1 notifies of memory through an eventfd, but never of pids, so that counter is read every CGROUP_WATCH_V1_MS.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "runtime/cgroup.h"

#define CGROUP_WATCH_V1_MS 1000

/* Counts since the watch was made. */
struct cgroup_hits {
    uint64_t memory_kills; /* processes killed because of the memory limit */
    uint64_t pids_refused; /* forks refused because of the pids limit */
};

struct cgroup_watch;

/* The cgroup is borrowed for the call. */
int cgroup_watch_new(const struct cgroup *cgroup, struct cgroup_watch **ret, struct err *err);
void cgroup_watch_free(struct cgroup_watch *watch);
DEFINE_AUTOPTR(cgroup_watch, cgroup_watch_free);

int cgroup_watch_fd(const struct cgroup_watch *watch); /* lent; poll for POLLIN */

/* Clears the descriptor and reads the counters. May be called at any time. */
void cgroup_watch_read(struct cgroup_watch *watch, struct cgroup_hits *ret);
