/*
 * One sandbox, with everything that its supervisor has for it.
 *
 *     booting ──▶ running ──▶ stopping ──▶ stopped      (a sandbox that is booting may be stopped too)
 *        └───────────┴──────────────────▶ failed
 *
 * boot.h creates the parts in this order: mount namespace, identity, fence and runtime, link; shutdown removes them in reverse.
 * Everything runs in the main thread, except the fence's workers, which use only `exec_of_pid` and the queue of fence_server.h;
 * a sync, which uses the fence and `codebase_sync`; a quiesce, which uses the fence; and file operations, which use the mount.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/identity.h"
#include "runtime/runtime.h"
#include "supervisor/cgroup_name.h"
#include "supervisor/event_log.h"
#include "supervisor/exec_of_pid.h"
#include "supervisor/fence_server.h"
#include "supervisor/init_link.h"
#include "supervisor/job.h"
#include "supervisor/reactor.h"
#include "supervisor/run.h"
#include "supervisor/shell.h"
#include "wire/ctl_proto.h"
#include "wire/sandbox_spec.h"

struct client;
struct sandbox_quiesce;
struct codebase_sync;
struct process;

struct sandbox {
    struct reactor reactor;
    const char *dir_path;      /* borrowed; absolute */
    int dir_fd;                /* owned */
    int lock_fd;               /* owned: held as long as we live */
    int base_fd;               /* owned: the base directory; -1: a codebase, which is opened by its path */
    struct sandbox_spec *spec; /* owned */
    char cgroup[CGROUP_NAME_MAX];
    char home_mark[CGROUP_NAME_MARK]; /* mark of our state directory, as in the names of cgroups */

    enum ctl_state state;
    struct err failure;
    int64_t started_ns; /* wall clock */
    struct timer boot_timer, stop_timer, sweep_timer;
    int64_t stop_until_ns;
    bool is_down;   /* everything of it has ended */
    bool has_swept; /* see leftovers.h */

    struct identity identity;
    char *mount_point;                   /* owned: the fence's; in our mount namespace, or for a container the host's */
    char *stage;                         /* owned: where the sandbox's root is built in advance, or NULL */
    struct codebase_sync *codebase_sync; /* owned; NULL: changes stay in the delta */
    struct plain *plain;                 /* owned; instead of a fence */
    struct fence_server *fence_server;   /* owned */
    struct job_queue syncs, file_ops;
    struct sandbox_quiesce *quiesce; /* owned; NULL: the files are not quiesced */
    struct runtime *runtime;         /* owned */
    struct runtime_process *process; /* owned */
    struct watch process_watch, limit_watch, output_watch;
    uint64_t oom_count;
    struct init_link link;

    struct run *runs;
    unsigned run_count;
    uint64_t flush_turn;
    struct shell *shells;
    unsigned shell_count;
    struct process *processes; /* in the background; each belongs to a command in `runs` */
    int process_dir_fd;        /* owned: directory of their records and logs; -1: it does not exist */
    struct exec_of_pid exec_of_pid;
    struct event_log event_log;

    int listen_fd; /* owned */
    struct watch listen_watch;
    struct client *clients;
    unsigned client_count;
    struct client *owner; /* the sandbox ends with this connection; NULL: there is no owner */
    int signal_fd;        /* owned */
    struct watch signal_watch;
};

/* Takes `dir_fd` and `lock_fd`, and loads the spec. */
int sandbox_init(struct sandbox *sandbox, const char *dir_path, int dir_fd, int lock_fd, struct err *err);
void sandbox_done(struct sandbox *sandbox);

/* The name of its directory, which a sweep uses to find its supervisor's lock (leftovers.c). */
const char *sandbox_id(const struct sandbox *sandbox);

/* Changes the state, and reports it to all clients and in the state file. An impossible transition is our bug. */
void sandbox_enter(struct sandbox *sandbox, enum ctl_state state);

/* Reports the progress of a slow start to all clients, with the current state, and to the log. */
void sandbox_report_progress(struct sandbox *sandbox, const char *text);

/* Ends a sandbox that cannot continue; `err` becomes sandbox->failure. */
void sandbox_fail(struct sandbox *sandbox, const struct err *err);

/* Prepares a pipe as a standard stream of a command. The sandbox's user must own it to open it again through /dev/stdout or
 * /dev/stderr. */
void sandbox_chown_pipe(const struct sandbox *sandbox, int fd);

/* Sends SIGTERM to what runs, SIGKILL after the grace, then shuts down. */
void sandbox_stop(struct sandbox *sandbox, uint32_t grace_ms);

/* Applies the rules of SET_RULES. They hold when this returns 0, also after a restart. */
int sandbox_set_rules(struct sandbox *sandbox, const void *bytes, size_t len, struct err *err);
void sandbox_get_status(struct sandbox *sandbox, struct ctl_status *ret);
