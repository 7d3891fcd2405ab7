/*
 * A user namespace that says "what belongs to this owner shall belong to that one", for a mount that shows it so (MOUNT_ATTR_IDMAP).
 * The two change places; everybody else stays who they are.
 */
#pragma once

#include <sys/types.h>

struct owner {
    uid_t uid;
    gid_t gid;
};

/* A descriptor of it. -EPERM without root. */
int owner_map_new(struct owner on_disk, struct owner shown);
