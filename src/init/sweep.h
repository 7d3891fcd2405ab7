/*
 * A walk over all processes below a process, by /proc/<pid>/task/<tid>/children (Linux 4.2), that signals each.
 *
 * A sweep meets at most SWEEP_MAX processes, and may miss some that fork or end meanwhile. A caller who wants all of them
 * repeats it until it finds none; stopped and killed processes cannot fork, so that terminates.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SWEEP_MAX 4096

enum sweep_verdict {
    SWEEP_SIGNAL,    /* and walk below it */
    SWEEP_PASS_OVER, /* no signal, but walk below it */
    SWEEP_LEAVE_OUT, /* neither it nor anything below */
};

typedef enum sweep_verdict (*sweep_fn)(pid_t pid, void *cookie);

/* Returns a descriptor of /proc if it is a procfs that shows this process under its pid, or -errno. Call it before any
 * command could put something there. */
int sweep_open_proc(void);

enum sweep_order {
    SWEEP_AT_ONCE,  /* as soon as each is met: against processes that fork faster than they are counted */
    SWEEP_TOGETHER, /* after all were met: killing a parent does not hide its children from the walk */
};

/* Signals everything below `root`, but not `root` itself. Returns the number of processes that were not left out, including
 * zombies. */
int sweep_below(int proc_fd, pid_t root, int signal, enum sweep_order order, sweep_fn judge, void *cookie);

/* Tells whether a process is stopped by a signal. */
bool sweep_is_stopped(int proc_fd, pid_t pid);

/* Tells whether a process has ended, reaped or not. A process of which only the main thread has ended counts too. */
bool sweep_is_ended(int proc_fd, pid_t pid);

/* Returns when a process started, in clock ticks since boot; 0 if unknown. */
uint64_t sweep_start_ticks(int proc_fd, pid_t pid);
