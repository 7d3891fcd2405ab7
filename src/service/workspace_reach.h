/*
 * Inside the room: from a workspace's id to what of it is here, for those who run things in it.
 */
#pragma once

#include "base/err.h"
#include "service/caller.h"

struct service;

/* Its directory, whether it runs or not; to be closed. ERR_NOT_FOUND also for what the caller does not see. */
int workspace_reach_dir(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err);
