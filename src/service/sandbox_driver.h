/*
 * The drivers that keep a workspace's changes apart from its directory: "fence" (checks the rules), "overlayfs" and "copy" (check nothing).
 * A workspace keeps the driver it was made with.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "service/caller.h"
#include "wire/driver_trial.h"

struct service;

#define SANDBOX_DRIVER "fence" /* the default */
#define SANDBOX_DRIVER_MAX 16

/* Cached results of the last trial. */
struct sandbox_drivers {
    pthread_mutex_t lock;
    int64_t tried_ns; /* monotonic clock; 0: not yet. `lock` guards it and the results */
    struct driver_trial trials[DRIVER_TRIAL_COUNT];
};

/* Tries whether the driver works on this host, or returns the result of a recent trial. */
void sandbox_driver_try(struct service *service, const char *name, struct driver_trial *ret);

/* `wanted` "" is the preferred driver, "auto" the first that works. Returns a literal, or NULL if the driver does not exist. `ret_reason`,
 * if not NULL, receives why it was chosen. */
const char *sandbox_driver_choose(struct service *service, const char *wanted, char ret_reason[DRIVER_TRIAL_REASON_MAX]);

/* Returns a description of one line. */
const char *sandbox_driver_describe(const char *name);

/* Makes it the driver of sandboxes that request none, also after a restart. ERR_PERMISSION_DENIED: only administrators may. */
int sandbox_driver_prefer(struct service *service, const struct caller *caller, const char *name, struct err *err);
void sandbox_driver_preferred(struct service *service, char ret[SANDBOX_DRIVER_MAX]);

/* This host's bubblewrap, which confines the commands of every driver. */
struct driver_bwrap {
    const char *path; /* a literal; "": it is not installed */
    char version[32]; /* "": unknown */
    bool allows_user_namespaces, overlayfs_works;
};

bool sandbox_driver_has_bwrap(void);
void sandbox_driver_look_at_bwrap(struct service *service, struct driver_bwrap *ret);
