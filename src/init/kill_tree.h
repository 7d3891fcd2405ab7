/*
 * Signals to an exec, and killing all of its processes.
 *
 * A kill proceeds in steps, between which init does its other work. Each step stops all processes below the reaper, then kills
 * all it finds, and the pause before the next step grows. Stopping first keeps a fork bomb from replacing the killed processes.
 * The kill is over when the reaper has no more children and ends.
 *
 * If an agent killed the reaper, its processes became init's own children. Then all children of init except reapers are killed,
 * because they belong to no exec.
 *
 * Without /proc only the process group of the main process can be found. A process that left the group lives until it ends by
 * itself or init does.
 */
#pragma once

#include <stdint.h>

#include "init/exec.h"
#include "wire/init_proto.h"

struct kill_tree {
    int proc_fd;              /* borrowed; -1: there is no /proc */
    struct exec_table *table; /* borrowed */
};

/* Executes a KILL request. */
void kill_tree_handle_kill(const struct kill_tree *kill_tree, struct exec *exec, const struct init_request *request);

void kill_tree_begin(struct exec *exec);

/* Takes a step in every kill that is due. Returns the milliseconds until the next one, or -1. */
int kill_tree_continue(const struct kill_tree *kill_tree, int64_t now_ms);

/* Tells whether an orphaned exec has been killed. */
bool kill_tree_is_done(const struct exec *exec);
