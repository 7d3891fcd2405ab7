/*
 * Parts of sandbox requests that other requests and profiles use too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

enum sandbox_sync { SANDBOX_SYNC_DEFAULT = 0, SANDBOX_SYNC_ON = 1, SANDBOX_SYNC_OFF = 2 };

struct pair {
    char *key, *value; /* owned */
};

struct pair_list {
    struct pair *items; /* owned */
    size_t count;
};

#define PAIR_LIST_EMPTY ((struct pair_list){ 0 })

void pair_list_add(struct pair_list *list, const char *key, const char *value); /* replaces an item with the same key */
void pair_list_done(struct pair_list *list);

/* 0: unlimited, or the server's default. */
struct sandbox_limits {
    int64_t memory_bytes, cpu_quota_us, cpu_shares, pids, disk_bytes, disk_inodes;
};
