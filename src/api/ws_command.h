/* The keys that exec, processes and exec-interactive have in common, read into a command. */
#pragma once

#include "api/ws_call.h"
#include "service/workspace_run.h"

/* Borrows from the JSON object, but for the two lists. */
struct ws_command {
    struct workspace_command command;
    const char **args; /* owned: the array alone */
    struct pair_list env;
    struct buf input; /* owned */
};

void ws_command_done(struct ws_command *command);
int ws_command_read(const json_t *object, struct ws_command *ret, struct err *err);

/* Keys of a limits object: memoryLimitMB, cpuTimeSec, maxProcesses, maxOpenFiles, timeoutSec. */
int ws_command_read_limits(const json_t *object, struct execution_limits *ret, struct err *err);
