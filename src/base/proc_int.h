/* The plan that the parent (proc.c) prepares and the child (proc_child.c) executes. */
#pragma once

#include "base/buf.h"
#include "base/proc.h"

enum proc_step { STEP_CGROUPS, STEP_DESCRIPTORS, STEP_SESSION, STEP_LIMITS, STEP_USER, STEP_DEATH_SIGNAL, STEP_CWD, STEP_EXEC };

struct proc_failure {
    enum proc_step step;
    int error;
};

struct proc_plan {
    const struct proc_spec *spec;
    struct buf task;     /* "starting 'program'", for errors */
    char **candidates;   /* owned, ends with NULL: the paths to try to execute, in order */
    struct proc_fd *fds; /* owned, ascending by target, including 0, 1 and 2 */
    size_t fd_count;
    int *moved;    /* owned: space for fd_count */
    int *keep;     /* owned: space for fd_count + 2 */
    int null_fd;   /* owned */
    int status_fd; /* borrowed: the write end */
    pid_t parent;
};

/* Runs in the child and uses only memory that the parent prepared. */
_Noreturn void proc_child_run(struct proc_plan *plan);
