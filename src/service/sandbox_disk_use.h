/*
 * How much disk sandboxes use: their changes as they were last measured, and on request all that their directories hold.
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
    int64_t disk_bytes;     /* 0: not measured */
    char error[256];        /* why it could not be measured */
};

struct sandbox_disk_use_list {
    struct sandbox_disk_use *items; /* owned; the largest first */
    size_t count, cap;
};

void sandbox_disk_use_list_done(struct sandbox_disk_use_list *list);

/* Of one sandbox, or with `id` "" of all those of this host that the caller sees, also of deleted ones that can be restored. `measures`: walks over
 * the files, which takes as long as they are many; stops with ERR_CANCELLED when the caller does not wait any more. */
int sandboxes_disk_use(struct service *service, const struct caller *caller, const char *id, bool measures,
                       struct sandbox_disk_use_list *ret, struct err *err);
