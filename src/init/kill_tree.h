/*
 * Signals to an exec, and the kill: killing every process of it.
 *
 * A kill goes in steps between which init does its other work: each stops all processes it finds below the reaper, then kills
 * all it finds, and waits a little longer than the one before. Stopping first keeps a fork bomb from filling the places that
 * the killed ones leave. The kill is over when the reaper, having nobody left to wait for, has ended.
 *
 * Where an agent killed the reaper, its processes became init's own children. All children of init that are no reapers are
 * then killed: they belong to nobody.
 *
 * Without /proc nobody can be found but the process group of the main process, so what left that group lives on until it
 * ends by itself or init does.
 */
#pragma once

#include <stdint.h>

#include "init/exec.h"
#include "wire/init_proto.h"

struct kill_tree {
    int proc_fd;              /* borrowed; -1: there is no /proc */
    struct exec_table *table; /* borrowed */
};

/* Does what a KILL asks for. */
void kill_tree_handle_kill(const struct kill_tree *kill_tree, struct exec *exec, const struct init_request *request);

void kill_tree_begin(struct exec *exec);

/* Takes a step in every kill that is due. Returns in how many milliseconds the next is, or -1. */
int kill_tree_continue(const struct kill_tree *kill_tree, int64_t now_ms);

/* Whether an orphaned exec has been killed. */
bool kill_tree_is_done(const struct exec *exec);
