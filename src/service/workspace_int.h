/*
 * Inside the room: what is asked of a sandbox over a directory without being told to. Takes the lock itself.
 */
#pragma once

#include "service/service_int.h"
#include "service/workspaces.h"

/* workspaces_check() without its mount; takes no lock. */
void workspace_ask_supervisor(struct service *service, const char *id, struct workspace_health *ret);

/* By the janitor. */
void workspaces_tend(struct service *service);
