/*
 * Makes the fence in a thread of its own while bwrap starts. Each takes milliseconds, and bwrap needs the fence only when it
 * binds the workspace.
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
    int r; /* the thread's result, with `err` */
    struct err err;
};

int boot_fence_begin(struct boot_fence *start, struct sandbox *sandbox, struct err *err);

/* Waits for the fence; `cookie` is the struct boot_fence. Later calls return the same result. */
int boot_fence_await(void *cookie, struct err *err);
