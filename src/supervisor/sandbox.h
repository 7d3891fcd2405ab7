/*
 * One sandbox and all that its supervisor has of it.
 *
 *     booting ──▶ running ──▶ stopping ──▶ stopped      (a sandbox that is booting may be stopped too)
 *        └───────────┴──────────────────▶ failed
 *
 * boot.h makes what is below in this order: mount namespace, identity, fence and runtime, link; shutdown takes it down in the
 * reverse. Everything runs in the main thread, except the fence's workers, which see only `exec_of_pid` and the fence's own mailbox, and
 * a sync, which sees the fence and `codebase_sync`, a hold, which sees the fence, and operations on files, which see the mount.
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
#include "supervisor/reactor.h"
#include "supervisor/run.h"
#include "supervisor/shell.h"
#include "wire/ctl_proto.h"
#include "wire/sandbox_spec.h"

struct client;
struct file_ops;
struct sandbox_quiesce;
struct codebase_sync;
struct process;
struct sync_job;

/* Of sync.c. */
struct syncs {
    struct sync_job *running;
    struct sync_job *waiting; /* owned, in their order */
    unsigned count;           /* of those */
    pthread_t thread;
    int wake_fd; /* owned; open while `watch` is in use */
    struct watch watch;
};

struct sandbox {
    struct reactor reactor;
    const char *dir_path;      /* borrowed; absolute */
    int dir_fd;                /* owned */
    int lock_fd;               /* owned: held as long as we live */
    int base_fd;               /* owned: the directory it is over; -1: of a codebase, which is found by its path */
    struct sandbox_spec *spec; /* owned */
    char cgroup[CGROUP_NAME_MAX];
    char home_mark[CGROUP_NAME_MARK]; /* of our home, as in the names of cgroups */

    enum ctl_state state;
    struct err failure;
    int64_t started_ns; /* wall clock */
    struct timer boot_timer, stop_timer, sweep_timer;
    int64_t stop_until_ns;
    bool is_down;   /* nothing of it runs any more */
    bool has_swept; /* what others left behind */

    struct identity identity;
    char *mount_point;                   /* owned: of the fence, in our mount namespace or, for a container, the host's */
    char *stage;                         /* owned: where the root of the sandbox is made ahead, or NULL */
    struct codebase_sync *codebase_sync; /* owned; NULL: changes stay in the delta */
    struct plain *plain;                 /* owned; instead of a fence */
    struct fence_server *fence_server;   /* owned */
    struct syncs syncs;
    struct sandbox_quiesce *quiesce; /* owned; NULL: nobody holds the files */
    struct file_ops *file_ops;       /* owned; NULL: none was asked for yet */
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
    struct process *processes; /* in the background; each is of a command among the runs */
    int process_dir_fd;        /* owned: where their records and logs are; -1: there are none */
    struct exec_of_pid exec_of_pid;
    struct event_log event_log;

    int listen_fd; /* owned */
    struct watch listen_watch;
    struct client *clients;
    unsigned client_count;
    struct client *owner; /* whose end is the sandbox's; NULL: nobody's */
    int signal_fd;        /* owned */
    struct watch signal_watch;
};

/* Takes `dir_fd` and `lock_fd`; the spec is loaded. */
int sandbox_init(struct sandbox *sandbox, const char *dir_path, int dir_fd, int lock_fd, struct err *err);
void sandbox_done(struct sandbox *sandbox);

/* What its directory is called: that is what others look for before they end what is called so (leftovers.c). */
const char *sandbox_id(const struct sandbox *sandbox);

/* Goes to another state, says so to all clients and in the state file. A step that the drawing above has not is our mistake. */
void sandbox_enter(struct sandbox *sandbox, enum ctl_state state);

/* What a start that takes its time is at: to all clients, as the state it is in, and to the log. */
void sandbox_report_progress(struct sandbox *sandbox, const char *text);

/* It cannot go on: `sandbox->failure` says why. */
void sandbox_fail(struct sandbox *sandbox, const struct err *err);

/* A pipe that is to be a standard stream of what runs inside: it must be its user's, or /dev/stdout and /dev/stderr, which open the pipe
 * anew, are closed to it. */
void sandbox_chown_pipe(const struct sandbox *sandbox, int fd);

/* SIGTERM to what runs, SIGKILL after the grace, then down. */
void sandbox_stop(struct sandbox *sandbox, uint32_t grace_ms);

/* Rules as SET_RULES brings them: hold when this returns 0, also after a restart. */
int sandbox_set_rules(struct sandbox *sandbox, const void *bytes, size_t len, struct err *err);
void sandbox_get_status(struct sandbox *sandbox, struct ctl_status *ret);
