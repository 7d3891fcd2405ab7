/*
 * Finds the run that a process belongs to, for the fence's change log.
 *
 * Every run's first process leads a session, so the session id that /proc shows for a process (as numbered inside the sandbox)
 * identifies the run. A process that made a new session belongs to no particular run; its changes are charged to all current
 * runs, as are writes that the kernel makes later. All an agent can forge this way is which of its own commands made a change.
 *
 * The fence's worker threads call this. It reads /proc only if several runs exist at once. Refusals are reported a moment
 * later, when the process may have ended. For those the map remembers the last removed entries with their times, and the
 * processes that were unknown when it was first asked.
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
    uint32_t pid;              /* as seen inside; 0: not known yet */
    int64_t from_ns, until_ns; /* wall clock: when it has had this name */
    char name[CTL_NAME_MAX];
};

/* A process whose session was unknown when it was looked up: a command's first file operations may precede the report of its
 * pid. */
struct exec_of_pid_unknown {
    pid_t pid;
    uint32_t session; /* as seen inside */
};

struct exec_of_pid {
    pthread_mutex_t lock;
    struct exec_of_pid_entry *entries; /* owned; guarded by `lock`, as all below */
    size_t count, cap;
    struct exec_of_pid_entry past[EXEC_OF_PID_PAST_MAX]; /* ring */
    size_t past_count;
    struct exec_of_pid_unknown unknown_pids[EXEC_OF_PID_UNKNOWN_MAX]; /* ring */
    size_t unknown_count;
    void (*on_pid)(void *cookie); /* called with the lock held */
    void *cookie;
};

#define EXEC_OF_PID_EMPTY ((struct exec_of_pid){ .lock = PTHREAD_MUTEX_INITIALIZER })

void exec_of_pid_done(struct exec_of_pid *map);

/* Adds or changes the entry of a key. An entry with the name "" has no run at present. */
void exec_of_pid_set(struct exec_of_pid *map, const void *key, uint32_t pid, const char *name);
void exec_of_pid_remove(struct exec_of_pid *map, const void *key);

/* Tells whether an entry still lacks its pid, and registers a callback for when that may have changed. The callback must not
 * call this module. */
bool exec_of_pid_is_incomplete(struct exec_of_pid *map);
void exec_of_pid_notify_with(struct exec_of_pid *map, void (*on_pid)(void *cookie), void *cookie);

/* Finds the name of the run that `pid`, in our pid namespace, belongs to; 0: the process is unknown. */
void exec_of_pid_find(struct exec_of_pid *map, pid_t pid, char out[CTL_NAME_MAX]);

/* Like exec_of_pid_find(), at an earlier time. Also finds a process that has ended since, if exec_of_pid_find() was called
 * while it ran. */
void exec_of_pid_find_at(struct exec_of_pid *map, pid_t pid, int64_t wall_ns, char out[CTL_NAME_MAX]);
