/*
 * A way to confine a sandbox. Callers see only this; the implementation (bubblewrap, Docker through its own program, a mock for
 * tests) is behind the vtable.
 *
 * Several sandboxes may share a runtime, which must outlive them. A sandbox belongs to the process that started it and
 * ends with the *thread* that did. bwrap ties itself and init to us only some milliseconds after its
 * start. If we are killed before that, they stay, so init must end when its socket closes (see also bwrap_orphan.h). Nothing
 * here runs commands: init does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/proc.h"
#include "runtime/cgroup_watch.h"
#include "runtime/runtime_spec.h"

enum runtime_event_kind { RUNTIME_EVENT_MEMORY, RUNTIME_EVENT_PIDS, RUNTIME_EVENT_PROGRESS };

/* A limit was hit (the data of `resource_limit_exceeded`), or PROGRESS of a slow start. */
struct runtime_event {
    enum runtime_event_kind kind;
    uint64_t count;   /* processes killed or forks refused since the last event of this kind */
    uint64_t limit;   /* bytes, processes */
    const char *text; /* for PROGRESS; lent until the next call */
};

struct runtime;
struct runtime_ops;

/* A running sandbox. */
struct runtime_process {
    const struct runtime *runtime; /* borrowed */
    struct proc proc;              /* owned; ends when everything in the sandbox has ended */
    pid_t init_pid;                /* in our pid namespace; for /proc, not for kill() */
    int init_pidfd;                /* owned; -1: the kernel has no pidfds */
    int output_fd;                 /* owned, non-blocking: standard error of bwrap and init */
    struct cgroup *cgroup;         /* owned; NULL: not needed */
    struct cgroup_watch *watch;    /* owned; NULL without a cgroup */
    struct cgroup_hits reported;
    struct runtime_limits limits; /* those in force */
    bool keeps_time;              /* it ends by itself, with a reason, if init does not answer */
    /* Not 0: no cgroup enforces the pids limit, so init must set RLIMIT_NPROC to this for its commands. */
    uint32_t nproc_rlimit;
    void *cookie; /* for the implementation */
};

struct runtime_ops {
    int (*start)(struct runtime *runtime, const struct runtime_spec *spec, struct runtime_process *process, struct err *err);
    int (*kill)(struct runtime_process *process);           /* after init was killed: ends the rest at once; does not wait */
    void (*release)(struct runtime_process *process);       /* after its end: frees the cookie; may be NULL */
    int (*event_fd)(const struct runtime_process *process); /* NULL with next_event: the cgroup's */
    int (*next_event)(struct runtime_process *process, struct runtime_event *ret);
    int (*explain)(struct runtime_process *process, struct err *err); /* after its end; 0: unknown; may be NULL */
    void (*free)(struct runtime *runtime);
};

struct runtime {
    const struct runtime_ops *ops;
};

/* Makes the runtime of this name in wire/runtime_type.h. ERR_INVALID_ARGUMENT if there is none. */
int runtime_new(const char *name, struct runtime **ret, struct err *err);
void runtime_free(struct runtime *runtime);
DEFINE_AUTOPTR(runtime, runtime_free);

/* Refuses an invalid spec (runtime_spec_check()) and limits that it cannot enforce. When it returns, the sandbox's
 * namespaces exist. init reports on its socket that it runs; if the socket closes instead, call runtime_explain(). */
int runtime_start(struct runtime *runtime, const struct runtime_spec *spec, struct runtime_process **ret, struct err *err);

/* Kills what still runs, waits, removes the cgroup and frees. */
void runtime_process_free(struct runtime_process *process);
DEFINE_AUTOPTR(runtime_process, runtime_process_free);

/* Freezes or thaws all processes. -ENOTSUP without a cgroup that can: see own_cgroup of the spec. */
int runtime_freeze(struct runtime_process *process, bool on);

/* Returns a descriptor to poll, or -1. runtime_next_event() returns 1 for each event, then 0. */
int runtime_event_fd(const struct runtime_process *process);
int runtime_next_event(struct runtime_process *process, struct runtime_event *ret);

/* Explains why it ended before init answered, from its output. Waits up to a second for its end. Returns a negative errno. */
int runtime_explain(struct runtime_process *process, struct err *err);
