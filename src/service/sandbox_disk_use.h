/*
 * Disk usage of sandboxes: the last measured size of their changes, and on request the size of their whole directories.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "service/caller.h"
#include "store/sandbox_row.h"

struct service;

struct sandbox_disk_use {
    struct sandbox_row row; /* owned */
    int64_t disk_bytes;     /* 0: unknown */
    char error[256];        /* why it could not be measured */
};

struct sandbox_disk_use_list {
    struct sandbox_disk_use *items; /* owned; the largest first */
    size_t count, cap;
};

void sandbox_disk_use_list_done(struct sandbox_disk_use_list *list);

/* Returns the usage of one sandbox, or with `id` "" of all those of this host that the caller sees, including deleted ones that can be
 * restored. `measures` walks over all files, which takes time in proportion to their number; ERR_CANCELLED when the caller no longer waits. */
int sandboxes_disk_use(struct service *service, const struct caller *caller, const char *id, bool measures,
                       struct sandbox_disk_use_list *ret, struct err *err);
