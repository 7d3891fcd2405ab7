/*
 * init's life: it waits for requests and for the ends of reapers, and costs nothing while there are none.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "init/exec.h"
#include "init/kill_tree.h"
#include "wire/init_proto.h"

struct loop {
    int channel; /* owned */
    int signals; /* owned: tells of SIGCHLD */
    int proc_fd; /* owned, or -1 */
    bool is_pid1;
    bool has_pending; /* a report that found no room; no request is taken until it went out */
    struct init_report pending;
    struct exec_table table;
    struct kill_tree kill_tree;
};

/* Takes over the channel, says HELLO. 0 or -errno. */
int loop_open(struct loop *loop, int channel);

/* Serves until SHUTDOWN, the end of the peer or a frame that is no request, then kills all that runs. */
enum init_exit loop_run(struct loop *loop);
