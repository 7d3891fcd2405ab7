/*
 * The fence being made by a thread of its own, while bwrap is started: each takes milliseconds, and neither needs the other before bwrap
 * comes to bind the workspace.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"

struct sandbox;

struct boot_fence {
    struct sandbox *sandbox;
    pthread_t thread;
    bool is_joined;
    int r; /* of the thread, as `err` */
    struct err err;
};

int boot_fence_begin(struct boot_fence *start, struct sandbox *sandbox, struct err *err);

/* What became of it; `cookie` is the struct boot_fence. Asked again, it tells the same. */
int boot_fence_await(void *cookie, struct err *err);
