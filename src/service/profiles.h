/*
 * Stores this host's profiles and limits (profile.h) in profiles.json and execution.json in the state directory. Everybody may read them.
 * Only an administrator may change them, because a profile can show any file of the host.
 */
#pragma once

#include "service/caller.h"
#include "service/profile.h"

struct service;

int profiles_list(struct service *service, struct profile_list *ret, struct err *err);
/* -ENOENT. `id` "" is the configured default. */
int profiles_get(struct service *service, const char *id, struct profile *ret, struct err *err);
int profiles_put(struct service *service, const struct caller *caller, const struct profile *profile, struct err *err);
int profiles_delete(struct service *service, const struct caller *caller, const char *id, struct err *err);

int execution_config_get(struct service *service, struct execution_config *ret, struct err *err);
int execution_config_put(struct service *service, const struct caller *caller, const struct execution_config *config,
                         struct err *err);
