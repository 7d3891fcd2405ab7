/*
 * Which drivers of workspaces work on this host, by trying: `agentfense-supervisor --try DIR` does for a moment, in namespaces of its own, what
 * it would do for a sandbox, and says what came of it, a line for each driver: "overlayfs\tyes\tmounted a trial ...".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define DRIVER_TRIAL_COUNT 3
#define DRIVER_TRIAL_REASON_MAX 256

struct driver_trial {
    bool works;
    char reason[DRIVER_TRIAL_REASON_MAX]; /* what was found; "" before it was tried */
};

/* The better first; all arrays of trials are in this order. Ended by NULL. */
extern const char *const driver_trial_names[];

/* Index of a driver's name, or -1. */
int driver_trial_index(const char *name);

/* Reads what the program says. Lines that are none are passed over. */
void driver_trial_parse(const char *text, size_t len, struct driver_trial ret[DRIVER_TRIAL_COUNT]);

/* Asks it. `dir` is a directory of ours, on the file system where sandboxes are kept. When it cannot be asked none works, and the reasons say why. */
void driver_trial_run(const char *dir, struct driver_trial ret[DRIVER_TRIAL_COUNT]);
