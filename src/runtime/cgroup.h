/*
 * The cgroup of one sandbox: a directory of the same name in each hierarchy that is needed to enforce its limits.
 *
 * It lives in the kernel, not in this object: free() forgets it, remove() takes it away once nothing runs in it.
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
    unsigned controllers; /* those that have a limit here */
    char *path;           /* owned */
    char *parent;         /* owned */
};

struct cgroup {
    struct cgroup_dir dirs[CGROUP_DIRS_MAX];
    size_t count;
    bool is_fake;
};

/* Makes it, with the limits set. A limit that no hierarchy can enforce is -ENOTSUP with the reason; nothing is left then. The
 * pids limit is `pids`, 0 for none, because whose default it is was decided before. -EEXIST when there is one of this name. */
int cgroup_new(const struct cgroup_tree *tree, const char *name, const struct runtime_limits *limits, uint32_t pids,
               struct cgroup **ret, struct err *err);

/* One that exists, in whatever hierarchies it is found. -ENOENT. */
int cgroup_find(const struct cgroup_tree *tree, const char *name, struct cgroup **ret);

/* That of a process which somebody else put there, for its counts. -ENOENT where it is in none that has one of these controllers. */
int cgroup_of_process(pid_t pid, unsigned controllers, struct cgroup **ret, struct err *err);

void cgroup_free(struct cgroup *cgroup);
DEFINE_AUTOPTR(cgroup, cgroup_free);

/* Moves a process in, in all hierarchies. The first of several costs a wait of some milliseconds in the kernel. */
int cgroup_attach(struct cgroup *cgroup, pid_t pid, struct err *err);

/* The files, opened for writing, through which a process of one thread moves itself in: where it writes "0" the kernel need not
 * wait. Only version 1 has them, so the number of them, which is returned, may be less than that of the directories; cgroup_attach()
 * is for what is left. -errno when one cannot be opened, and none is open then. */
int cgroup_open_procs(const struct cgroup *cgroup, int ret_fds[CGROUP_DIRS_MAX]);

/* Stops all processes where they are, or lets them go on; waits until it is so. -ENOTSUP where no hierarchy can. */
int cgroup_freeze(struct cgroup *cgroup, bool on);

/* Ends all processes in it, those too that are forked meanwhile, and waits until they are gone. -ETIMEDOUT. */
int cgroup_kill(struct cgroup *cgroup);

/* Removes its directories, trying again for a while when the kernel is not done with what ran in it. */
int cgroup_remove(struct cgroup *cgroup);

/* The directory where this controller's limit is enforced, lent; NULL when it has none. */
const struct cgroup_dir *cgroup_get_dir(const struct cgroup *cgroup, unsigned controller);
