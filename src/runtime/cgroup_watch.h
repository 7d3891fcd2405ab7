/*
 * Tells when a sandbox runs into a limit of its cgroup: a process was ended for memory, or could not be made for pids.
 *
 * One descriptor to poll; readable means cgroup_watch_read() may have something new. v2 tells at once, by inotify. v1 tells of
 * memory at once, by an eventfd; of pids it does not tell at all, so that count is looked at every CGROUP_WATCH_V1_MS.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "runtime/cgroup.h"

#define CGROUP_WATCH_V1_MS 1000

/* How often each has happened since the watch began. */
struct cgroup_hits {
    uint64_t memory_kills; /* processes ended because the memory limit was reached */
    uint64_t pids_refused; /* forks refused because the pids limit was reached */
};

struct cgroup_watch;

/* The cgroup is borrowed for the call. */
int cgroup_watch_new(const struct cgroup *cgroup, struct cgroup_watch **ret, struct err *err);
void cgroup_watch_free(struct cgroup_watch *watch);
DEFINE_AUTOPTR(cgroup_watch, cgroup_watch_free);

int cgroup_watch_fd(const struct cgroup_watch *watch); /* lent; poll for POLLIN */

/* Clears what made the descriptor readable and looks at the counts, which it may be asked for at any time. */
void cgroup_watch_read(struct cgroup_watch *watch, struct cgroup_hits *ret);
