/*
 * The state that a reaper and init share, written by the reaper while it lives.
 *
 *     STARTING ──▶ RUNNING ──▶ ENDED ──▶ REPORTED ──▶ GONE
 *          └──────────────────────────────────────────▲     the command could not be started
 *
 * ENDED is set before the main process is waited for: until then its pid cannot be reused. REPORTED and GONE are set after
 * EXITED and GONE (or SPAWN_FAILED) were sent, so that init knows what to report for a reaper that was killed.
 *
 * A signal for a command in STARTING would hit nothing, so init leaves it in `signal` and the reaper sends it once the command
 * runs. Both take it with an atomic exchange after they have seen or set the state, so exactly one of them sends it.
 */
#pragma once

#include <stdatomic.h>

enum exec_phase {
    EXEC_STARTING,
    EXEC_RUNNING,
    EXEC_ENDED,
    EXEC_REPORTED,
    EXEC_GONE,
};

struct exec_state {
    _Atomic int state;    /* enum exec_phase */
    _Atomic int main_pid; /* 0 while STARTING */
    _Atomic int signal;   /* left for the reaper; 0: none */
};
