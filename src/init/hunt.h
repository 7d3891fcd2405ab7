/*
 * Signals to an exec, and the hunt: killing every process of it.
 *
 * A hunt goes in steps between which init does its other work: each stops all processes it finds below the keeper, then kills
 * all it finds, and waits a little longer than the one before. Stopping first keeps a fork bomb from filling the places that
 * the killed ones leave. The hunt is over when the keeper, having nobody left to wait for, has ended.
 *
 * Where an agent killed the keeper, its processes became init's own children. All children of init that are no keepers are
 * then hunted: they belong to nobody.
 *
 * Without /proc nobody can be found but the process group of the main process, so what left that group lives on until it
 * ends by itself or init does.
 */
#pragma once

#include <stdint.h>

#include "init/exec.h"
#include "wire/init_proto.h"

struct hunt {
    int proc_fd;              /* borrowed; -1: there is no /proc */
    struct exec_table *table; /* borrowed */
};

/* Does what a KILL asks for. */
void hunt_kill(const struct hunt *hunt, struct exec *exec, const struct init_request *request);

void hunt_begin(struct exec *exec);

/* Takes a step in every hunt that is due. Returns in how many milliseconds the next is, or -1. */
int hunt_go_on(const struct hunt *hunt, int64_t now_ms);

/* Whether an orphaned exec has been hunted down. */
bool hunt_is_over(const struct exec *exec);
