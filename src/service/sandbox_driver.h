/*
 * By what a workspace's changes are kept apart from its directory: "fence" (rules are checked), "overlayfs" and "copy" (nothing is). A
 * workspace keeps the one it was made with.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "service/caller.h"
#include "wire/driver_trial.h"

struct service;

#define SANDBOX_DRIVER "fence" /* of those who ask for none */
#define SANDBOX_DRIVER_MAX 16

/* What was found out about them, the last time somebody wanted to know. */
struct sandbox_drivers {
    pthread_mutex_t lock;
    int64_t tried_ns; /* monotonic clock; 0: not yet. Guarded by `lock`, as what was found */
    struct driver_trial trials[DRIVER_TRIAL_COUNT];
};

/* Whether this host has what it needs; tried by doing it, not long ago. */
void sandbox_driver_try(struct service *service, const char *name, struct driver_trial *ret);

/* "" is what was preferred, "auto" the first that works. NULL: there is no such driver. A literal. `ret_reason`, if not NULL, says why it was chosen. */
const char *sandbox_driver_choose(struct service *service, const char *wanted, char ret_reason[DRIVER_TRIAL_REASON_MAX]);

/* What a driver is, in one line. */
const char *sandbox_driver_describe(const char *name);

/* Makes it the driver of sandboxes that name none, from now on and after a restart. ERR_PERMISSION_DENIED: only administrators may. */
int sandbox_driver_prefer(struct service *service, const struct caller *caller, const char *name, struct err *err);
void sandbox_driver_preferred(struct service *service, char ret[SANDBOX_DRIVER_MAX]);

/* What this host has of bubblewrap, which confines the commands of every driver. */
struct driver_bwrap {
    const char *path; /* a literal; "": it is not installed */
    char version[32]; /* "": it does not say */
    bool allows_user_namespaces, overlayfs_works;
};

bool sandbox_driver_has_bwrap(void);
void sandbox_driver_look_at_bwrap(struct service *service, struct driver_bwrap *ret);
