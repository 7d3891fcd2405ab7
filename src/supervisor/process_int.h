/* What the two files of a process share: process_start.c begins it, process.c is its life. */
#pragma once

#include "supervisor/init_link.h"
#include "supervisor/log_file.h"
#include "supervisor/pipe_reader.h"
#include "supervisor/process.h"
#include "supervisor/run.h"
#include "supervisor/tty_input.h"
#include "wire/process_record.h"

/* Somebody who waits for the end. */
struct process_waiter {
    struct process_waiter *next;
    struct client *client; /* borrowed */
    uint64_t tag;
};

struct process {
    struct run run;
    struct task task;
    struct process *next, **slot; /* of the sandbox's list */
    struct pipe_reader reader;    /* its pipe, or the master of its terminal */
    struct tty_input tty_input;   /* what goes into the terminal */
    struct log_file log;
    struct process_record record;
    struct timer grace, ending;
    bool was_killed; /* SIGKILL was sent: `ending` then is how long it may take */
    bool is_over;    /* its tree is gone */
    bool is_draining;
    struct ctl_finished result;
    struct process_waiter *waiters; /* owned */
};

extern const struct run_ops process_run_ops;
extern const struct task_ops process_task_ops;

void process_free(struct process *process);

/* Of a reader: to the log, and to who is attached. */
bool process_add_output(const void *bytes, size_t len, void *cookie);
void process_at_output_end(void *cookie);
