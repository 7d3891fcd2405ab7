/*
 * A sandbox as the API tells of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "policy/rule.h"
#include "sandbox/limit_report.h"

/* What it is at, numbered as the API numbers it. */
enum sandbox_phase {
    SANDBOX_PENDING = 1,
    SANDBOX_RUNNING = 2,
    SANDBOX_STOPPED = 3,
    SANDBOX_ERROR = 4,
};

enum sandbox_sync { SANDBOX_SYNC_DEFAULT = 0, SANDBOX_SYNC_ON = 1, SANDBOX_SYNC_OFF = 2 };

struct pair {
    char *key, *value; /* owned */
};

struct pair_list {
    struct pair *items; /* owned */
    size_t count;
};

#define PAIR_LIST_EMPTY ((struct pair_list){ 0 })

void pair_list_add(struct pair_list *list, const char *key, const char *value); /* replaces one with the same key */
void pair_list_done(struct pair_list *list);

/* 0: none, or the server's default. */
struct sandbox_limits {
    int64_t memory_bytes, cpu_quota_us, cpu_shares, pids, disk_bytes, disk_inodes;
};

/* Times are wall-clock nanoseconds, 0: never. Strings owned, never NULL. */
struct sandbox_info {
    char *id, *codebase_id, *owner, *reason, *image, *network;
    struct rule_list rules; /* as they were given */
    struct pair_list labels;
    enum sandbox_phase phase;
    int runtime; /* numbered as in the API (wire/runtime_type.h); 0: the API has no number for it */
    enum sandbox_sync sync;
    struct sandbox_limits limits;
    int64_t created_ns, started_ns, stopped_ns, expires_ns;
    char **warnings; /* owned, each too: what is odd about the rules; told when they are set */
    size_t warning_count;
    struct limit_report held; /* told by sandboxes_get() */
};

void sandbox_info_free(struct sandbox_info *info);
DEFINE_AUTOPTR(sandbox_info, sandbox_info_free);
