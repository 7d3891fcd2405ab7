/*
 * The cgroup of one sandbox: a directory of the same name in each hierarchy that enforces its limits.
 *
 * It lives in the kernel, not in this object: free() only forgets it, and remove() removes it once nothing runs in it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "runtime/cgroup_tree.h"
#include "runtime/runtime_spec.h"

#define CGROUP_DIRS_MAX 8

struct cgroup_dir {
    int version;
    unsigned controllers; /* those with a limit here */
    char *path;           /* owned */
    char *parent;         /* owned */
};

struct cgroup {
    struct cgroup_dir dirs[CGROUP_DIRS_MAX];
    size_t count;
    bool is_fake;
};

/* Makes the cgroup and sets its limits. -ENOTSUP with the reason if no hierarchy can enforce a limit; then nothing is left.
 * `pids` is the pids limit, 0 for none, because the caller has applied the default. -EEXIST if the name is in use. */
int cgroup_new(const struct cgroup_tree *tree, const char *name, const struct runtime_limits *limits, uint32_t pids,
               struct cgroup **ret, struct err *err);

/* Finds an existing cgroup in all hierarchies. -ENOENT. */
int cgroup_find(const struct cgroup_tree *tree, const char *name, struct cgroup **ret);

/* Finds the cgroup into which another program has put a process, to read its counters. -ENOENT if none of its cgroups has
 * one of these controllers. */
int cgroup_of_process(pid_t pid, unsigned controllers, struct cgroup **ret, struct err *err);

void cgroup_free(struct cgroup *cgroup);
DEFINE_AUTOPTR(cgroup, cgroup_free);

/* Moves a process into all hierarchies. The first move costs some milliseconds in the kernel. */
int cgroup_attach(struct cgroup *cgroup, pid_t pid, struct err *err);

/* Opens the files through which a single-threaded process moves itself in: writing "0" makes the kernel wait for nothing.
 * Only version 1 has them, so the returned number may be less than that of the directories; use cgroup_attach() for the
 * rest. On failure returns -errno and leaves none open. */
int cgroup_open_procs(const struct cgroup *cgroup, int ret_fds[CGROUP_DIRS_MAX]);

/* Freezes or thaws all processes and waits until that is done. -ENOTSUP if no hierarchy can. */
int cgroup_freeze(struct cgroup *cgroup, bool on);

/* Kills all processes in it, including new ones, and waits until they are gone. -ETIMEDOUT. */
int cgroup_kill(struct cgroup *cgroup);

/* Removes its directories. Retries for a while if the kernel still uses them. */
int cgroup_remove(struct cgroup *cgroup);

/* Lends the directory that enforces this controller's limit; NULL if there is none. */
const struct cgroup_dir *cgroup_get_dir(const struct cgroup *cgroup, unsigned controller);
