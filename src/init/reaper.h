/*
 * The process that keeps one exec. It starts the command, inherits every orphan of its tree (PR_SET_CHILD_SUBREAPER), reports
 * the end of the main process immediately and that of the whole tree last. It is a small fork of init.
 *
 * It separates an exec's tree from others, however its processes fork and detach. It takes no requests: init does the killing,
 * because it finds the whole tree below the reaper.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "init/exec_state.h"
#include "wire/init_proto.h"

struct reaper {
    int channel;              /* borrowed */
    bool follows;             /* it ends when init ends; if init is pid 1 the kernel does that */
    pid_t init;               /* init's pid */
    uint64_t id;              /* the exec's */
    struct exec_state *state; /* borrowed, shared with init */
    struct frame *frame;      /* the SPAWN: borrowed, but its descriptors are owned */
    struct init_spawn *spawn;
};

/* Call it in a forked child of init. */
_Noreturn void reaper_run(const struct reaper *reaper);
