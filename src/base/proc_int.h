/* What a parent prepares and its child uses. */
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
    char **candidates;   /* owned, ended by NULL: what to execute, the first that exists */
    struct proc_fd *fds; /* owned, ascending by target, the standard three among them */
    size_t fd_count;
    int *moved;  /* owned: room for fd_count */
    int *keep;   /* owned: room for fd_count + 2 */
    int null_fd; /* owned */
    int cwd_fd;
    int status_fd; /* borrowed: the write end */
    pid_t parent;
};

/* In the child, on memory that was prepared before. */
_Noreturn void proc_child_run(struct proc_plan *plan);
