/*
 * Who writes: which run a process belongs to, for the fence's records of changes.
 *
 * Every run's first process leads a session of its own, so the session id that /proc shows for a process (as numbered inside
 * the sandbox) names the run. A process that made itself another session belongs to nobody in particular, and then to all that
 * run, as do writes that the kernel makes in its own time. What an agent can forge this way is which of its own commands did it.
 *
 * Asked by the fence's worker threads; the answer needs /proc only when several run at once. Refusals are told a moment later,
 * when who was refused may have ended: for these the last that left are remembered with their times, and so are those that nobody
 * knew yet.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/ctl_proto.h"

#define EXEC_OF_PID_PAST_MAX 32
#define EXEC_OF_PID_UNKNOWN_MAX 64

struct exec_of_pid_entry {
    const void *key;
    uint32_t pid;              /* inside; 0: not known yet */
    int64_t from_ns, until_ns; /* wall clock: how long it has had this name */
    char name[CTL_NAME_MAX];
};

/* A process whose session was nobody's when it was asked for: a command's first requests may come before its pid does. */
struct exec_of_pid_unknown {
    pid_t pid;
    uint32_t session; /* inside */
};

struct exec_of_pid {
    pthread_mutex_t lock;
    struct exec_of_pid_entry *entries; /* owned; guarded by `lock`, as all below */
    size_t count, cap;
    struct exec_of_pid_entry past[EXEC_OF_PID_PAST_MAX]; /* a ring */
    size_t past_count;
    struct exec_of_pid_unknown unknown_pids[EXEC_OF_PID_UNKNOWN_MAX]; /* a ring */
    size_t unknown_count;
    void (*on_pid)(void *cookie); /* called with the lock */
    void *cookie;
};

#define EXEC_OF_PID_EMPTY ((struct exec_of_pid){ .lock = PTHREAD_MUTEX_INITIALIZER })

void exec_of_pid_done(struct exec_of_pid *map);

/* Adds or changes what is known under a key; "" keeps the place without a name. */
void exec_of_pid_set(struct exec_of_pid *map, const void *key, uint32_t pid, const char *name);
void exec_of_pid_remove(struct exec_of_pid *map, const void *key);

/* Whether one is without its pid still; and who wants to know when that may have changed. It must not ask us anything. */
bool exec_of_pid_is_incomplete(struct exec_of_pid *map);
void exec_of_pid_notify_with(struct exec_of_pid *map, void (*on_pid)(void *cookie), void *cookie);

/* The name of the run that `pid`, as we number it, belongs to; 0: nobody knows which process it was. */
void exec_of_pid_find(struct exec_of_pid *map, pid_t pid, char out[CTL_NAME_MAX]);

/* The same of a time that has passed; of a process that is gone by now, if exec_of_pid_find() was asked while it lived. */
void exec_of_pid_find_at(struct exec_of_pid *map, pid_t pid, int64_t wall_ns, char out[CTL_NAME_MAX]);
