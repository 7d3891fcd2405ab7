/*
 * The profiles and the limits of this host's workspaces (profile.h), as they are kept: <home>/profiles.json and <home>/execution.json.
 * Everybody sees them; only an administrator changes them, for a profile may show any file of the host.
 */
#pragma once

#include "service/caller.h"
#include "service/profile.h"

struct service;

int profiles_list(struct service *service, struct profile_list *ret, struct err *err);
/* -ENOENT. "" is the configured default. */
int profiles_get(struct service *service, const char *id, struct profile *ret, struct err *err);
int profiles_put(struct service *service, const struct caller *caller, const struct profile *profile, struct err *err);
int profiles_delete(struct service *service, const struct caller *caller, const char *id, struct err *err);

int execution_config_get(struct service *service, struct execution_config *ret, struct err *err);
int execution_config_put(struct service *service, const struct caller *caller, const struct execution_config *config,
                         struct err *err);
