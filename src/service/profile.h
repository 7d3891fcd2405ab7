/*
 * Isolation profiles: which host directories a workspace sees beside its project, its network, and its commands' environment. Also the
 * default and maximum limits of commands.
 *
 * A sandbox is confined when it starts, and all its commands share that confinement. So a profile applies to a workspace from its start on.
 * A command may name that profile, or one with the same confinement and another environment. A profile with another confinement is refused,
 * never ignored.
 *
 * Two profiles are built in: `full`, which shares nothing, and `aware`, which shows the user's own tools. Others are kept in a file in the
 * state directory, which is replaced as a whole, like the configuration.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "service/sandbox_info.h"
#include "wire/sandbox_spec.h"

#define PROFILE_DEFAULT "full"
#define PROFILE_AWARE "aware"
#define PROFILE_AWARE_ALIAS "vrooli-aware" /* its name in other products; a user's profile of this name takes precedence */
#define PROFILE_ID_MAX 64
#define PROFILES_MAX 200
#define PROFILE_PAIRS_MAX 100

enum profile_network {
    PROFILE_NETWORK_NONE,
    PROFILE_NETWORK_LOCALHOST, /* refused: a network with only the host's loopback does not exist */
    PROFILE_NETWORK_FULL,      /* the host's network */
};

/* Strings owned, never NULL. */
struct profile {
    char *id, *name, *description, *hostname;
    bool is_builtin;
    enum profile_network network;
    struct pair_list read_only, read_write; /* host path -> path inside */
    struct pair_list environment;
};

void profile_done(struct profile *profile);

const char *profile_network_name(enum profile_network network);
int profile_network_parse(const char *text, enum profile_network *ret, struct err *err);

struct profile_list {
    struct profile *items; /* owned */
    size_t count, cap;
};

void profile_list_done(struct profile_list *list);

/* Checks the id, paths, variable names and network. */
int profile_check(const struct profile *profile, struct err *err);

/* Applies the profile to the spec of a sandbox that is about to start: network, mounts, host name, environment. Replaces a leading "$HOME" in
 * sources, and in the environment any "$NAME" of the server's own. Refuses a missing source, except in a built-in profile. `allows_network`
 * is the server's setting. */
int profile_apply(const struct profile *profile, bool allows_network, struct sandbox_spec *spec, struct err *err);

/* Applies only the environment. */
int profile_expand_env(const struct profile *profile, struct sandbox_spec *spec);

/* Returns true if two sandboxes have the same confinement: network, mounts, host name. */
bool profile_confines_like(const struct sandbox_spec *a, const struct sandbox_spec *b);

/* 0: unlimited. */
struct execution_limits {
    int64_t memory_mb, cpu_sec, processes, open_files, timeout_sec;
};

/* Strings owned. */
struct execution_config {
    struct execution_limits defaults, maxima;
    char *default_profile;
};

void execution_config_done(struct execution_config *config);

/* Computes the limits of a command that requests `wanted`, where 0 requests the default: never above the maximum. If neither the request nor
 * the default sets a limit, there is none even if there is a maximum; only for the time the maximum then applies. */
void execution_config_clamp(const struct execution_config *config, const struct execution_limits *wanted,
                            struct execution_limits *ret);

/* "a default exceeds its maximum". */
int execution_config_check(const struct execution_config *config, struct err *err);
