/*
 * What a container has on the host: a directory in that of its sandbox with the files that are bound into it, and, by its supervisor,
 * the mount of the fence.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "runtime/docker_order.h"

/* Makes the directory anew, with its files. An init that the sandbox's user could not run is copied there, and the order then names
 * the copy. */
int container_dir_make(struct docker_order *order, int *ret_fd, struct err *err);

/* When our supervisor, `parent`, does no longer live, its mount goes, which it cannot have taken along; unless another supervisor has the
 * sandbox by now. */
void container_dir_unmount(const struct docker_order *order, pid_t parent);

/* The directory goes, unless another supervisor has it. */
void container_dir_remove(const struct docker_order *order, pid_t parent);
