/*
 * A walk over all processes below one, as /proc shows them (/proc/<pid>/task/<tid>/children, Linux 4.2), sending each a signal.
 *
 * One sweep is bounded: it meets at most SWEEP_MAX processes. While processes fork and end it may miss some, so whoever wants
 * all of them sweeps again until a sweep finds none; what is stopped or killed cannot fork, so that comes to an end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SWEEP_MAX 4096

enum sweep_verdict {
    SWEEP_SIGNAL,    /* and go on below it */
    SWEEP_PASS_OVER, /* no signal, but go on below it */
    SWEEP_LEAVE_OUT, /* it and all below */
};

typedef enum sweep_verdict (*sweep_fn)(pid_t pid, void *cookie);

/* A descriptor of /proc, if it is procfs and shows this process under its pid. Or -errno. To be called before a command could
 * put anything there. */
int sweep_open_proc(void);

enum sweep_order {
    SWEEP_AT_ONCE,  /* each when it is met: against those that fork faster than they are counted */
    SWEEP_TOGETHER, /* all after the last was met: a parent that dies of it does not take its children out of sight */
};

/* Signals what is below `root`, not itself. How many processes were found that are not left out, ended ones that nobody has
 * waited for yet included. */
int sweep_below(int proc_fd, pid_t root, int signal, enum sweep_order order, sweep_fn judge, void *cookie);

/* Whether a process is stopped by a signal. */
bool sweep_is_stopped(int proc_fd, pid_t pid);

/* Whether a process has ended, waited for or not. A process whose main thread alone has ended counts as ended too. */
bool sweep_is_ended(int proc_fd, pid_t pid);

/* When a process started, in clock ticks since boot; 0 when that cannot be seen. */
uint64_t sweep_start_ticks(int proc_fd, pid_t pid);
