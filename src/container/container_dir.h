/*
 * A container's traces on the host: a directory in the sandbox's directory with the files to bind, and the fence's mount, made
 * by the supervisor.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "runtime/docker_order.h"

/* Makes the directory and its files. Copies an init that the sandbox's user cannot execute; the order then names the copy. */
int container_dir_make(struct docker_order *order, int *ret_fd, struct err *err);

/* Removes the mount of our supervisor, `parent`, if that is dead and could not do so, unless another supervisor has the
 * sandbox by now. */
void container_dir_unmount(const struct docker_order *order, pid_t parent);

/* Removes the directory, unless another supervisor has the sandbox. */
void container_dir_remove(const struct docker_order *order, pid_t parent);
