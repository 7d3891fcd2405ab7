/*
 * The process that keeps one exec: it starts the command, inherits every orphan of its tree (PR_SET_CHILD_SUBREAPER), reports
 * the end of the main process at once and that of the tree at last. It is a fork of init, and small.
 *
 * It is why an exec's tree can be told from another's however its processes fork and detach. It takes no requests: whoever it
 * shall kill, init kills, as it finds the whole tree below the reaper.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "init/exec_state.h"
#include "wire/init_proto.h"

struct reaper {
    int channel;              /* borrowed */
    bool follows;             /* it ends when init ends; as pid 1 the kernel sees to that */
    pid_t init;               /* init's pid */
    uint64_t id;              /* the exec's */
    struct exec_state *state; /* borrowed, shared with init */
    struct frame *frame;      /* the SPAWN: borrowed, its descriptors owned */
    struct init_spawn *spawn;
};

/* To be called in a forked child of init. */
_Noreturn void reaper_run(const struct reaper *reaper);
