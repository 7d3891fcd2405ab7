/*
 * The lifecycle of a workspace and what may be approved of it, as its creator requested: a JSON object, checked and normalised once.
 *
 *     {"lifecycle": {"stopOn": [event], "deleteOn": [event], "ttl": ns, "idleTimeout": ns},
 *      "acceptance": {"mode": "allowlist", "allow": {"pathGlobs": [], "extensions": []}, "deny": {...}, "ignoreBinary": bool,
 *                     "autoApprove": bool, "autoReject": bool},
 *      "hooks": [hook]}                                                                       (hook.h)
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum behavior_event {
    BEHAVIOR_RUN_COMPLETED = 1 << 0,
    BEHAVIOR_RUN_FAILED = 1 << 1,
    BEHAVIOR_RUN_CANCELLED = 1 << 2,
    BEHAVIOR_APPROVED = 1 << 3,
    BEHAVIOR_REJECTED = 1 << 4,
    BEHAVIOR_TERMINAL = 1 << 5, /* either of the two above */
};

/* Reads `noLock` from a behaviour, where some clients put it instead of beside it. It is not stored with the behaviour. */
int behavior_no_lock(const json_t *given, bool *ret_is_given, bool *ret, struct err *err);

/* `given` may be NULL. Durations may be nanoseconds or texts, and become nanoseconds. Globs and extensions are trimmed and made unique;
 * extensions get a leading dot and become lower case. ERR_INVALID_ARGUMENT, also for an unknown key. */
int behavior_normalise(const json_t *given, json_t **ret, struct err *err);

struct behavior {
    unsigned stop_on, delete_on; /* bits */
    int64_t ttl_ns, idle_ns;     /* 0: none */
    bool auto_approves, auto_rejects;
};

/* Parses the result of behavior_normalise() as text. Returns an empty behaviour for an invalid text. */
struct behavior behavior_parse(const char *text);
