/*
 * The cgroup hierarchies of this host and the place in each where we may make cgroups of our own.
 *
 * There may be one hierarchy (v2), one per controller (v1), or both (hybrid). Sandboxes' cgroups lie in a directory
 * "agentfense":
 *  - v1: beneath our own cgroup, so that a limit on us holds for our sandboxes too.
 *  - v2: beneath our own cgroup when that is ours to divide: it is the root, it was delegated to us, or we are no root and can
 *    write there. Its processes then move to a leaf beside, because v2 allows no processes in a cgroup that hands controllers
 *    down. Otherwise, as root, beneath the root: another manager's cgroup is not ours to divide.
 * Reading only: nothing is made before a sandbox needs it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"

enum {
    CGROUP_MEMORY = 1 << 0,
    CGROUP_CPU = 1 << 1,
    CGROUP_PIDS = 1 << 2,
    CGROUP_FREEZER = 1 << 3, /* part of every v2 hierarchy */
    CGROUP_ALL = CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS | CGROUP_FREEZER,
};

#define CGROUP_DIR "agentfense"
#define CGROUP_LEAF "agentfense-host" /* where the processes of a divided v2 cgroup go */

struct cgroup_hierarchy {
    int version;          /* 1 or 2 */
    unsigned controllers; /* those it could enforce if we may write */
    char *base;           /* owned: the cgroup that we divide */
    char *parent;         /* owned: base/agentfense, perhaps not there yet */
    bool is_own;          /* base is the cgroup we are in */
    bool writable;
};

struct cgroup_tree {
    struct cgroup_hierarchy *items; /* owned */
    size_t count, cap;
    bool is_fake;
};

/* Where to look. A fake tree is a plain directory: files are made when they are written and removed with their directory. */
struct cgroup_sources {
    const char *mountinfo; /* "/proc/self/mountinfo" */
    const char *self;      /* "/proc/self/cgroup" */
    bool as_root;          /* may take the root of v2 */
    bool is_fake;
};

/* `sources` NULL: the real ones. A host without cgroups is an empty tree, no error. */
int cgroup_tree_new(const struct cgroup_sources *sources, struct cgroup_tree **ret, struct err *err);
void cgroup_tree_free(struct cgroup_tree *tree);
DEFINE_AUTOPTR(cgroup_tree, cgroup_tree_free);

/* The hierarchy that can enforce one controller, or NULL and why not. */
const struct cgroup_hierarchy *cgroup_tree_find(const struct cgroup_tree *tree, unsigned controller, const char **ret_reason);

/* Makes the hierarchy's parent directory and, on v2, hands the controllers down to it. */
int cgroup_tree_prepare(const struct cgroup_tree *tree, const struct cgroup_hierarchy *hierarchy, struct err *err);

/* Called with the name of each leftover; whether it is to stay. */
typedef bool (*cgroup_keep_fn)(const char *name, void *cookie);

/* Ends and removes all sandboxes' cgroups whose name begins with the prefix, except those to keep. Returns how many went. */
int cgroup_tree_sweep(const struct cgroup_tree *tree, const char *prefix, cgroup_keep_fn keep, void *cookie);

const char *cgroup_controller_name(unsigned controller);

/* For this room: moves what runs in a v2 cgroup to the leaf in it, so that it may hand controllers down. */
int cgroup_tree_evacuate(const struct cgroup_tree *tree, const char *base);

/* For this room: one file of a cgroup. */
int cgroup_write_file(bool is_fake, const char *dir, const char *name, const char *text);
