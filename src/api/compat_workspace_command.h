/* The keys that exec, processes and exec-interactive have in common, read into a command. */
#pragma once

#include "api/compat_workspace_call.h"
#include "service/sandbox_run.h"

/* Borrows from the JSON object, but for the two lists. */
struct compat_command {
    struct sandbox_command command;
    const char **args; /* owned: the array alone */
    struct pair_list env;
    struct buf input; /* owned */
};

void compat_command_done(struct compat_command *command);
int compat_command_read(const json_t *object, struct compat_command *ret, struct err *err);

/* Keys of a limits object: memoryLimitMB, cpuTimeSec, maxProcesses, maxOpenFiles, timeoutSec. */
int compat_command_read_limits(const json_t *object, struct execution_limits *ret, struct err *err);
