/*
 * The cgroup hierarchies of this host, and where in each we may make cgroups.
 *
 * There may be one hierarchy (v2), one per controller (v1), or both (hybrid). The sandboxes' cgroups are in a directory
 * "agentfense":
 *     v1: beneath our own cgroup, so that a limit on us also limits our sandboxes.
 *     v2: beneath our own cgroup if we may divide it: it is the root, or delegated to us, or we are not root and can write to it.
 *         Its processes then move to a leaf, because v2 allows no processes in a cgroup that delegates controllers. Otherwise,
 *         as root, beneath the root, because our own cgroup belongs to another manager.
 * This only reads; nothing is made before a sandbox needs it.
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
#define CGROUP_LEAF "agentfense-host" /* for the processes of a divided v2 cgroup */

struct cgroup_hierarchy {
    int version;          /* 1 or 2 */
    unsigned controllers; /* those it could enforce with write access */
    char *base;           /* owned: the cgroup that we divide */
    char *parent;         /* owned: base/agentfense, which may not exist yet */
    bool is_own;          /* base is our own cgroup */
    bool writable;
};

struct cgroup_tree {
    struct cgroup_hierarchy *items; /* owned */
    size_t count, cap;
    bool is_fake;
};

/* Where to look. A fake tree is a plain directory: writing creates files, and removing a directory removes its files. */
struct cgroup_sources {
    const char *mountinfo; /* "/proc/self/mountinfo" */
    const char *self;      /* "/proc/self/cgroup" */
    bool as_root;          /* may use v2's root */
    bool is_fake;
};

/* `sources` NULL: the real ones. A host without cgroups has an empty tree, which is not an error. */
int cgroup_tree_new(const struct cgroup_sources *sources, struct cgroup_tree **ret, struct err *err);
void cgroup_tree_free(struct cgroup_tree *tree);
DEFINE_AUTOPTR(cgroup_tree, cgroup_tree_free);

/* Finds the hierarchy that can enforce a controller; NULL with the reason if there is none. */
const struct cgroup_hierarchy *cgroup_tree_find(const struct cgroup_tree *tree, unsigned controller, const char **ret_reason);

/* Makes the hierarchy's parent directory and, on v2, delegates the controllers to it. */
int cgroup_tree_prepare(const struct cgroup_tree *tree, const struct cgroup_hierarchy *hierarchy, struct err *err);

/* Gets the name of each leftover and returns whether to keep it. */
typedef bool (*cgroup_keep_fn)(const char *name, void *cookie);

/* Kills and removes the sandboxes' cgroups whose name begins with the prefix, except those to keep. Returns their number. */
int cgroup_tree_sweep(const struct cgroup_tree *tree, const char *prefix, cgroup_keep_fn keep, void *cookie);

const char *cgroup_controller_name(unsigned controller);

/* For this module: moves the processes of a v2 cgroup to its leaf, so that it may delegate controllers. */
int cgroup_tree_evacuate(const struct cgroup_tree *tree, const char *base);

/* For this module: writes one file of a cgroup. */
int cgroup_write_file(bool is_fake, const char *dir, const char *name, const char *text);
