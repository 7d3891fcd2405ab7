/*
 * init's main loop: waits for requests and for reapers to end, and is idle otherwise.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "init/exec.h"
#include "init/kill_tree.h"
#include "wire/init_proto.h"

struct loop {
    int channel; /* owned */
    int signals; /* owned: signalfd for SIGCHLD */
    int proc_fd; /* owned, or -1 */
    bool is_pid1;
    bool has_pending; /* a report could not be sent; no request is read until it was */
    struct init_report pending;
    struct exec_table table;
    struct kill_tree kill_tree;
};

/* Takes the channel and sends HELLO. Returns 0 or -errno. */
int loop_open(struct loop *loop, int channel);

/* Serves until SHUTDOWN, the end of the peer or an invalid frame, then kills everything that runs. */
enum init_exit loop_run(struct loop *loop);
