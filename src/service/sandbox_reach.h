/*
 * Inside the module: from an id to what of it is here, for those who run things in it: a workspace's, or that of a sandbox over a codebase.
 */
#pragma once

#include "base/err.h"
#include "service/caller.h"

struct service;
struct sandbox_conn;

/* That of one that runs, with a reference. ERR_FAILED_PRECONDITION: it does not. */
int sandbox_reach_conn(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret,
                       struct err *err);

/* Its directory, whether it runs or not; to be closed. ERR_NOT_FOUND also for what the caller does not see. */
int sandbox_reach_dir(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err);
