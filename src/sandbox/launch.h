/*
 * Starting the supervisor of a sandbox and waiting until the sandbox runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/proc.h"
#include "sandbox/state_dir.h"
#include "wire/ctl_proto.h"

enum launch_kind {
    LAUNCH_OWNED,    /* the sandbox ends with us */
    LAUNCH_DETACHED, /* it outlives us */
};

/* How long a start may take: a container's image may have to be fetched first. */
#define LAUNCH_MS 60000
#define LAUNCH_CONTAINER_MS (15 * 60000)

struct launch {
    struct proc supervisor; /* owned */
    int ctl_fd;             /* owned: a control connection; the end of an owner's stops the sandbox */
};

#define LAUNCH_NONE ((struct launch){ .supervisor = PROC_NONE, .ctl_fd = -1 })

/* What it gets along, and how it is waited for. */
struct launch_wait {
    int64_t within_ms;
    int cancel_fd; /* -1, or what ends it when it becomes readable: -EINTR */
    int base_fd;   /* the directory that the sandbox is over, when > 0: as it was checked, whatever has its name by now */
    void (*on_step)(const char *text,
                    void *cookie); /* NULL, or who wants to hear what takes its time, such as fetching an image */
    void *cookie;
};

/* The sandbox runs when it returns 0. Otherwise the error is the supervisor's own, and nothing is left running. */
int launch(const struct state_dir *state_dir, const char *name, enum launch_kind kind, const struct launch_wait *wait,
           struct launch *ret, struct err *err);

/* What still comes while it stops: events of the last moments, states. */
typedef void (*launch_reply_fn)(const struct ctl_reply *reply, void *cookie);

/* Stops the sandbox and waits until nothing of it runs. `fn` may be NULL. */
void launch_stop(struct launch *launch, unsigned grace_ms, launch_reply_fn fn, void *cookie);

void launch_done(struct launch *launch); /* stops it at once, if it was not stopped */
