/*
 * A way to confine a sandbox. Who runs sandboxes sees only this; how it is done (bubblewrap here, a mock in tests, Docker by
 * its own program) is behind the vtable.
 *
 * A runtime may be shared by several sandboxes and must outlive them. A sandbox is owned by the process that started it and,
 * unless its spec says otherwise, ends with the *thread* that did. bwrap ties itself and init to us only some milliseconds
 * after its start: if we are killed before, they stay, so init must end when its socket does (and see bwrap_orphan.h). Nothing
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

/* A limit was run into: the data of `resource_limit_exceeded`. Or PROGRESS: what a start that takes its time is at. */
struct runtime_event {
    enum runtime_event_kind kind;
    uint64_t count;   /* processes ended, forks refused, since the last event of this kind */
    uint64_t limit;   /* bytes, processes */
    const char *text; /* of PROGRESS; lent until the next is asked for */
};

struct runtime;
struct runtime_ops;

/* A running sandbox. */
struct runtime_process {
    const struct runtime *runtime; /* borrowed */
    struct proc proc;              /* owned; ends when the sandbox has ended and everything in it */
    pid_t init_pid;                /* as we see it; for /proc, not for kill() */
    int init_pidfd;                /* owned; -1 where the kernel has none */
    int output_fd;                 /* owned, non-blocking: what bwrap and init print on their standard error */
    struct cgroup *cgroup;         /* owned; NULL: none was needed */
    struct cgroup_watch *watch;    /* owned; NULL without a cgroup */
    struct cgroup_hits reported;
    struct runtime_limits limits; /* in force */
    bool keeps_time;              /* it ends by itself, and tells why, when init does not answer */
    uint32_t nproc_rlimit; /* not 0: no cgroup holds the pids limit, so init must set RLIMIT_NPROC to this for its commands */
    void *cookie;          /* the implementation's own */
};

struct runtime_ops {
    int (*start)(struct runtime *runtime, const struct runtime_spec *spec, struct runtime_process *process, struct err *err);
    int (*kill)(struct runtime_process *process);           /* at once, all of it, init besides; does not wait */
    void (*release)(struct runtime_process *process);       /* after its end: what the implementation owns. NULL: nothing */
    int (*event_fd)(const struct runtime_process *process); /* NULL with next_event: that of the cgroup */
    int (*next_event)(struct runtime_process *process, struct runtime_event *ret);
    int (*explain)(struct runtime_process *process, struct err *err); /* after its end; 0: it cannot. NULL: never */
    void (*free)(struct runtime *runtime);
};

struct runtime {
    const struct runtime_ops *ops;
};

/* The one of this name in wire/runtime_type.h. ERR_INVALID_ARGUMENT: there is none. */
int runtime_new(const char *name, struct runtime **ret, struct err *err);
void runtime_free(struct runtime *runtime);
DEFINE_AUTOPTR(runtime, runtime_free);

/* Refuses a bad spec (see runtime_spec_check) and limits it cannot enforce. When it returns, the sandbox's namespaces exist;
 * that init runs is known when init says so on its socket. If the socket ends instead, ask runtime_explain(). */
int runtime_start(struct runtime *runtime, const struct runtime_spec *spec, struct runtime_process **ret, struct err *err);

/* Ends what still runs, waits, removes the cgroup and frees. */
void runtime_process_free(struct runtime_process *process);
DEFINE_AUTOPTR(runtime_process, runtime_process_free);

/* All processes stand still, or go on. -ENOTSUP without a cgroup that can: see own_cgroup of the spec. */
int runtime_freeze(struct runtime_process *process, bool on);

/* A descriptor to poll, or -1; then one event per call: 1, or 0 when there are no more. */
int runtime_event_fd(const struct runtime_process *process);
int runtime_next_event(struct runtime_process *process, struct runtime_event *ret);

/* Why it ended before init answered, from what it printed. Waits for its end for a second. Returns a negative errno. */
int runtime_explain(struct runtime_process *process, struct err *err);
