/*
 * Isolation profiles: what of the host a workspace sees beside its project, whether it has a network, and what its commands have in their
 * environment; and the limits that commands have when they ask for none, and at most.
 *
 * A sandbox is confined when it starts, and all its commands share that. So a profile holds for a workspace from its start on; a command
 * may name it, or one that confines the same and differs in its environment alone. One that would confine otherwise is refused, never
 * passed over.
 *
 * Two are built in: `full`, which shares nothing, and `aware`, which shows the user's own tools. Others are kept in a file in the
 * service's home, replaced whole, as is the configuration.
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
#define PROFILE_AWARE_ALIAS "vrooli-aware" /* what others call it; a profile that somebody makes under this name comes first */
#define PROFILE_ID_MAX 64
#define PROFILES_MAX 200
#define PROFILE_PAIRS_MAX 100

enum profile_network {
    PROFILE_NETWORK_NONE,
    PROFILE_NETWORK_LOCALHOST, /* refused: there is no network that is only the host's loopback */
    PROFILE_NETWORK_FULL,      /* the host's */
};

/* Strings owned, never NULL. */
struct profile {
    char *id, *name, *description, *hostname;
    bool is_builtin;
    enum profile_network network;
    struct pair_list read_only, read_write; /* of the host -> inside */
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

/* Whether it could ever be used: id, paths, names of variables, network. */
int profile_check(const struct profile *profile, struct err *err);

/* What a sandbox that is about to start shall have of it: network, mounts, host name, environment. "$HOME" and "$USER" in sources, any
 * "$NAME" of the server's own in the environment, are replaced. A source that is not there is refused, but for a built-in profile.
 * `allows_network` as the server is configured. */
int profile_apply(const struct profile *profile, bool allows_network, struct sandbox_spec *spec, struct err *err);

/* The environment alone. */
int profile_expand_env(const struct profile *profile, struct sandbox_spec *spec);

/* Whether two sandboxes are confined alike: network, mounts, host name. */
bool profile_confines_like(const struct sandbox_spec *a, const struct sandbox_spec *b);

/* 0: none. */
struct execution_limits {
    int64_t memory_mb, cpu_sec, processes, open_files, timeout_sec;
};

/* Strings owned. */
struct execution_config {
    struct execution_limits defaults, maxima;
    char *default_profile;
};

void execution_config_done(struct execution_config *config);

/* What a command gets that asks for `wanted`, 0 being nothing in particular: the default, no more than the maximum. Where neither asks for
 * a limit there is none, but for the time. */
void execution_config_clamp(const struct execution_config *config, const struct execution_limits *wanted,
                            struct execution_limits *ret);

/* "a default exceeds its maximum". */
int execution_config_check(const struct execution_config *config, struct err *err);
