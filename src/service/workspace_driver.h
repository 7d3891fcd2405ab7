/*
 * By what a workspace's changes are kept apart from its directory: "fence" (rules are checked), "overlayfs" and "copy" (nothing is). A
 * workspace keeps the one it was made with.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct service;

#define WORKSPACE_DRIVER "fence" /* of those who ask for none */
#define WORKSPACE_DRIVER_MAX 16

/* Ended by NULL; the better first. */
extern const char *const workspace_driver_names[];

/* Whether this host has what it needs; tried, not looked up. */
bool workspace_driver_works(const char *name);

/* "" is what was preferred, "auto" the first that works. NULL: there is no such driver. A literal. */
const char *workspace_driver_choose(struct service *service, const char *wanted);

/* What workspaces get whose makers do not say, from now on; kept. */
int workspace_driver_prefer(struct service *service, const char *name, struct err *err);
void workspace_driver_preferred(struct service *service, char ret[WORKSPACE_DRIVER_MAX]);
