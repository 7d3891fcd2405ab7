/*
 * Finds out by trial which drivers of workspaces work on this host. `agentfense-supervisor --try DIR` does in its own
 * namespaces what it would do for a sandbox and prints one line per driver: "overlayfs\tyes\tmounted a trial ...".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define DRIVER_TRIAL_COUNT 3
#define DRIVER_TRIAL_REASON_MAX 256

struct driver_trial {
    bool works;
    char reason[DRIVER_TRIAL_REASON_MAX]; /* the result; "" before the trial */
};

/* In order of preference, which is also the order of all arrays of trials. Ends with NULL. */
extern const char *const driver_trial_names[];

/* Returns the index of a driver, or -1. */
int driver_trial_index(const char *name);

/* Parses the program's output. Skips lines that are not results. */
void driver_trial_parse(const char *text, size_t len, struct driver_trial ret[DRIVER_TRIAL_COUNT]);

/* Runs the trial. `dir` is a directory of ours on the file system that stores sandboxes. If the trial fails, no driver works
 * and the reasons say why. */
void driver_trial_run(const char *dir, struct driver_trial ret[DRIVER_TRIAL_COUNT]);
