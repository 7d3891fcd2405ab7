/*
 * How init in a container gets the socket to its supervisor.
 *
 * Nothing can be inherited through an engine. So a listening socket is bound into the container as a file, and init, which is all that
 * runs there yet, connects to it: it is asked for by nobody else, accepts once, and is gone before the first command can be
 * started. What init is then given through that connection is its end of a pair that its supervisor made, as if it had inherited it.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

#define INIT_SOCKET_NAME "socket"

/* Listens at INIT_SOCKET_NAME in a directory that nobody but us may enter. */
int init_socket_open(int dir_fd, int *ret_fd, struct err *err);

/* Somebody is there: lets him in if he is who is expected, and tells his pid as we see it and as a descriptor. The kernel says who
 * he is, the engine is not asked. */
int init_socket_accept(int fd, uid_t uid, int *ret_fd, pid_t *ret_pid, int *ret_pidfd, struct err *err);

int init_socket_pass_fd(int fd, int passed_fd, struct err *err);
