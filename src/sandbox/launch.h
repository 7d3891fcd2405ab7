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
    LAUNCH_OWNED,    /* the sandbox ends with its owner */
    LAUNCH_DETACHED, /* the sandbox outlives its owner */
};

/* Maximum duration of a start. A container's engine may first have to fetch the image. */
#define LAUNCH_MS 60000
#define LAUNCH_CONTAINER_MS (15 * 60000)

struct launch {
    struct proc supervisor; /* owned */
    int ctl_fd;             /* owned: a control connection; closing an owner's stops the sandbox */
};

#define LAUNCH_NONE ((struct launch){ .supervisor = PROC_NONE, .ctl_fd = -1 })

/* What launch() passes to the supervisor, and how it waits for it. */
struct launch_wait {
    int64_t within_ms;
    int cancel_fd; /* -1, or a descriptor that ends the wait with -EINTR when it becomes readable */
    int base_fd; /* if > 0: the sandbox's base directory, opened when it was checked; another directory may have its name by now */
    void (*on_step)(const char *text,
                    void *cookie); /* may be NULL; called for steps that take long, such as fetching an image */
    void *cookie;
};

/* Returns 0 when the sandbox runs. Otherwise `err` is the supervisor's own error, and no process is left running. */
int launch(const struct state_dir *state_dir, const char *name, enum launch_kind kind, const struct launch_wait *wait,
           struct launch *ret, struct err *err);

/* Receives what the supervisor still sends while it stops: the last events and states. */
typedef void (*launch_reply_fn)(const struct ctl_reply *reply, void *cookie);

/* Stops the sandbox and waits until no process of it is left. `fn` may be NULL. */
void launch_stop(struct launch *launch, unsigned grace_ms, launch_reply_fn fn, void *cookie);

void launch_done(struct launch *launch); /* stops it immediately unless launch_stop() did */
