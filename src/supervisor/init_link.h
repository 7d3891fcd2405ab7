/*
 * The supervisor's end of the socket to agentfense-init, and the tasks that init runs for us.
 *
 * A task is one process with all its descendants. It is started once, and its number is never reused. Reports of init are
 * untrusted: those for unknown numbers, or that do not fit the task's phase, are ignored. So every task gets `spawned` or
 * `failed` once, then `exited` once, then `gone` once, or nothing more because the link is lost. Requests that init cannot take
 * yet are queued in order.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "supervisor/reactor.h"
#include "wire/init_proto.h"

#define INIT_LINK_BUCKETS 64
/* How many requests may wait for a busy init before no more tasks are started, and before even a KILL is refused. */
#define INIT_LINK_SPAWNS_MAX 1024
#define INIT_LINK_QUEUE_MAX 16384

struct init_link_request;
struct task;

struct task_ops {
    void (*spawned)(struct task *task, int pty_fd); /* the master of its terminal, given away; -1: it has none */
    void (*failed)(struct task *task, int error, enum init_step step);
    void (*exited)(struct task *task, const struct init_report *report);
    void (*gone)(struct task *task); /* may free the task */
};

enum task_phase { TASK_IDLE, TASK_ASKED, TASK_RUNNING, TASK_EXITED, TASK_GONE };

struct task {
    struct init_link *link; /* borrowed; NULL: not registered */
    struct task *next;
    const struct task_ops *ops;
    uint64_t id;
    enum task_phase phase;
    bool wants_pty;
    uint32_t pid; /* as seen inside; 0: not known yet */
};

/* Called when init says HELLO, and when the link breaks or init violates the protocol (`r` is a negative errno). */
typedef void (*init_link_fn)(int r, void *cookie);

struct init_link {
    int fd; /* owned; -1: closed */
    struct watch watch;
    struct reactor *reactor;
    bool is_ready;
    uint32_t hello_flags;
    uint64_t last_id;
    uint32_t nproc_rlimit;                        /* for every task; 0: none */
    struct init_link_request *queue, **queue_end; /* owned */
    unsigned queue_count;
    struct task *buckets[INIT_LINK_BUCKETS];
    init_link_fn fn;
    void *cookie;
};

#define INIT_LINK_NONE ((struct init_link){ .fd = -1 })

/* Takes the socket. */
int init_link_open(struct init_link *link, struct reactor *reactor, int fd, init_link_fn fn, void *cookie);
void init_link_close(struct init_link *link); /* its tasks get no more reports */

/* Asks init to kill everything and exit. */
void init_link_shut_down(struct init_link *link);

/* -EAGAIN if too many requests wait. */
int task_start(struct task *task, struct init_link *link, const struct task_ops *ops, const struct init_spawn *spawn,
               const struct init_command *command);

/* Signals a running task; `since_ticks` as in init_proto.h. */
int task_kill(struct task *task, int signal, enum init_kill_scope scope, uint64_t since_ticks);

/* Unregisters the task: it gets no more reports. Does nothing to an unregistered one. */
void task_forget(struct task *task);
