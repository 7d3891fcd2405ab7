/*
 * Starting the supervisor of a sandbox and waiting until the sandbox runs.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/proc.h"
#include "service/home.h"

struct launch {
    struct proc supervisor; /* owned */
    int ctl_fd;             /* owned: a control connection; when it ends the sandbox is stopped */
};

#define LAUNCH_NONE ((struct launch){ .supervisor = PROC_NONE, .ctl_fd = -1 })

/* The sandbox runs when it returns 0. Otherwise the error is the supervisor's own, and nothing is left running. */
int launch(const struct home *home, const char *name, struct launch *ret, struct err *err);

/* Stops the sandbox and waits until nothing of it runs. */
void launch_stop(struct launch *launch, unsigned grace_ms);

void launch_done(struct launch *launch); /* stops it at once, if it was not stopped */
