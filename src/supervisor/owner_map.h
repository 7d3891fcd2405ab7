/*
 * A user namespace for an idmapped mount (MOUNT_ATTR_IDMAP) that shows the files of one owner as another's. The two are
 * exchanged; all other ids stay the same.
 */
#pragma once

#include <sys/types.h>

struct owner {
    uid_t uid;
    gid_t gid;
};

/* Returns a descriptor of the namespace. -EPERM without root. */
int owner_map_new(struct owner on_disk, struct owner shown);
