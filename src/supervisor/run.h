/*
 * A run: something a client asked to be run, as the client sees it. STARTED, its output in order, FINISHED, each once.
 *
 * What runs is behind it: a process of its own (command.h) or a line given to a session's shell (shell.h). They tell the run
 * what happens; the run tells the client, as fast as that listens, or keeps it for one that may come later (detached).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/reactor.h"
#include "supervisor/ring_buffer.h"
#include "wire/ctl_proto.h"

#define RUNS_KEPT_MAX 64 /* ended, detached, and nobody has asked for them yet */

struct client;
struct run;
struct sandbox;

struct run_ops {
    void (*kill)(struct run *run, int signal, enum ctl_kill_scope scope);
    void (*resume)(struct run *run); /* output is taken again */
    void (*drop)(struct run *run);   /* nobody wants to hear more: free it, now or when what runs is gone */
    /* These may be NULL. */
    void (*replay)(struct run *run); /* a client has come: the ring buffer is what it is shown first */
    int (*input)(struct run *run, const void *bytes, size_t len); /* the client is told when it is taken */
    void (*resize)(struct run *run, uint16_t rows, uint16_t cols);
    void (*leave)(struct run *run); /* its client has gone */
};

enum run_phase {
    RUN_WAITING, /* for its turn */
    RUN_ACTIVE,
    RUN_ENDED, /* but the client has not got everything */
    RUN_REPORTED,
};

struct run_output {
    struct ring_buffer ring;
    uint64_t passed; /* bytes let through so far */
    bool is_cut;
};

struct run {
    struct sandbox *sandbox;
    const struct run_ops *ops;
    struct run *next, **slot; /* of the sandbox's list */
    char name[CTL_NAME_MAX];
    struct client *client; /* borrowed; NULL: nobody listens now */
    uint64_t tag;
    bool is_detached;
    enum run_phase phase;
    bool is_alive; /* something of it may run, also when its client has heard the end */
    uint64_t output_limit;
    struct run_output outputs[2];
    int64_t began_ns;    /* 0: not yet */
    uint64_t oom_count;  /* of the sandbox when it began */
    uint64_t flush_turn; /* in which turn its client last got what there was */
    uint32_t pid;
    struct ctl_finished result;
};

/* Joins the sandbox's list. `name` "" is replaced by one of our own. -EEXIST when there is one of that name. */
int run_init(struct run *run, struct sandbox *sandbox, const struct run_ops *ops, struct client *client, uint64_t tag,
             const struct ctl_run *asked, const char *name);
void run_done(struct run *run);

/* It runs; `pty_fd` is borrowed, or -1. `text` is for the event log. */
void run_started(struct run *run, uint32_t pid, int pty_fd, const char *text);

/* Bytes of stream 0 (standard output) or 1. Whether more may come now. */
bool run_add_output(struct run *run, unsigned stream, const void *bytes, size_t len);

/* It has ended and all its output is here. `result` needs end, status, error, flags, text and usage; the rest is added. */
void run_end(struct run *run, const struct ctl_finished *result);

/* The client listens again. May free the run. */
void run_flush(struct run *run);

/* The client is gone, or another takes its place. */
void run_lose_client(struct run *run);
void run_attach(struct run *run, struct client *client, uint64_t tag);

struct run *run_find_name(struct sandbox *sandbox, const char *name);
struct run *run_find_tag(struct sandbox *sandbox, const struct client *client, uint64_t tag);
