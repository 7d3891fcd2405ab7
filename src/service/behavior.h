/*
 * How a workspace lives and what an approval may take of it, as its maker asked: a JSON object, checked and put in order once.
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
    BEHAVIOR_TERMINAL = 1 << 5, /* each of the two before it */
};

/* `noLock` in a behaviour, where some clients have it: that of the sandbox beside it. It is not kept with the behaviour. */
int behavior_no_lock(const json_t *given, bool *ret_is_given, bool *ret, struct err *err);

/* `given` may be NULL. Durations may be nanoseconds or texts, and are nanoseconds afterwards; globs and extensions are trimmed, each once;
 * extensions begin with a dot and are lower case. ERR_INVALID_ARGUMENT, also of a key that is none. */
int behavior_normalise(const json_t *given, json_t **ret, struct err *err);

struct behavior {
    unsigned stop_on, delete_on; /* bits */
    int64_t ttl_ns, idle_ns;     /* 0: none */
    bool auto_approves, auto_rejects;
};

/* Of what behavior_normalise() gave, as text. What is none is no behaviour. */
struct behavior behavior_parse(const char *text);
