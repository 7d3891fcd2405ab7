/*
 * Inside the room: from a workspace's id to what of it is here, for those who run things in it.
 */
#pragma once

#include "base/err.h"
#include "service/caller.h"
#include "service/ward.h"

struct service;

#define WORKSPACE_NAME_MAX 40

/* "ws_" and the id's 32 digits: the name of its directory and of its ward. False: it is no id. */
bool workspace_reach_name(const char *id, char out[WORKSPACE_NAME_MAX]);

/* One that runs, with a reference, and its time of last use is now. -ENOENT, ERR_NOT_FOUND; ERR_FAILED_PRECONDITION when it does not run. */
int workspace_reach_ward(struct service *service, const struct caller *caller, const char *id, struct ward **ret,
                         struct err *err);

/* Its directory, whether it runs or not; to be closed. */
int workspace_reach_dir(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err);
