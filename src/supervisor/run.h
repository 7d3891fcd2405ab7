/*
 * A run as its client sees it: STARTED, its output in order, and FINISHED, each once.
 *
 * Behind it is a process of its own (command.h) or a line for a session's shell (shell.h). These report to the run, and the run
 * forwards to its client as fast as that reads, or keeps the output for a later client (detached).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/reactor.h"
#include "supervisor/ring_buffer.h"
#include "wire/ctl_proto.h"

#define RUNS_KEPT_MAX 64 /* finished detached runs that nobody has asked for yet */

struct client;
struct run;
struct sandbox;

struct run_ops {
    void (*kill)(struct run *run, int signal, enum ctl_kill_scope scope);
    void (*resume)(struct run *run); /* read output again */
    void (*drop)(struct run *run);   /* no client will ask for it again: free it, now or when its processes have ended */
    /* These may be NULL. */
    void (*replay)(struct run *run); /* a client has attached: fill the ring buffer with what it sees first */
    int (*input)(struct run *run, const void *bytes, size_t len); /* the client gets OK once the bytes are written */
    void (*resize)(struct run *run, uint16_t rows, uint16_t cols);
    void (*leave)(struct run *run); /* its client has gone */
};

enum run_phase {
    RUN_WAITING, /* queued behind other commands */
    RUN_ACTIVE,
    RUN_ENDED, /* its client has not received everything yet */
    RUN_REPORTED,
};

struct run_output {
    struct ring_buffer ring;
    uint64_t passed; /* bytes passed on so far */
    bool is_cut;
};

struct run {
    struct sandbox *sandbox;
    const struct run_ops *ops;
    struct run *next, **slot; /* links of the sandbox's list */
    char name[CTL_NAME_MAX];
    struct client *client; /* borrowed; NULL: no client is attached */
    uint64_t tag;
    bool is_detached;
    enum run_phase phase;
    bool is_alive; /* some of its processes may still run, even if the client has got FINISHED */
    uint64_t output_limit;
    struct run_output outputs[2];
    int64_t began_ns;    /* 0: not started */
    uint64_t oom_count;  /* the sandbox's counter at the start */
    uint64_t flush_turn; /* the last turn in which its client was flushed */
    uint32_t pid;
    struct ctl_finished result;
};

/* Adds the run to the sandbox's list. An empty `name` is replaced by a generated one. -EEXIST if the name is in use. */
int run_init(struct run *run, struct sandbox *sandbox, const struct run_ops *ops, struct client *client, uint64_t tag,
             const struct ctl_run *asked, const char *name);
void run_done(struct run *run);

/* Reports that it runs. `pty_fd` is borrowed, or -1; `text` is for the event log. */
void run_started(struct run *run, uint32_t pid, int pty_fd, const char *text);

/* Adds bytes of stream 0 (standard output) or 1 (standard error). Returns whether it can take more now. */
bool run_add_output(struct run *run, unsigned stream, const void *bytes, size_t len);

/* Reports the end, after all output. `result` has end, status, error, flags, text and usage; this adds the rest. */
void run_end(struct run *run, const struct ctl_finished *result);

/* Sends what is queued, when the client can read again. May free the run. */
void run_flush(struct run *run);

/* The client is gone, or a new one attaches. */
void run_lose_client(struct run *run);
void run_attach(struct run *run, struct client *client, uint64_t tag);

struct run *run_find_name(struct sandbox *sandbox, const char *name);
struct run *run_find_tag(struct sandbox *sandbox, const struct client *client, uint64_t tag);
