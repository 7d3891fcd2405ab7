/*
 * How init in a container gets the socket to its supervisor.
 *
 * Nothing can be inherited through an engine. So a listening socket is bound into the container as a file, and init connects to
 * it while it is the only process there. The socket accepts once and is gone before the first command can start. Through this
 * connection init gets its end of a pair that the supervisor made, as if it had inherited that.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

#define INIT_SOCKET_NAME "socket"

/* Listens at INIT_SOCKET_NAME in a directory that only we may enter. */
int init_socket_open(int dir_fd, int *ret_fd, struct err *err);

/* Accepts a connection if it comes from the expected user, and returns the peer's pid in our namespace and a pidfd. The
 * kernel names the peer; the engine is not asked. */
int init_socket_accept(int fd, uid_t uid, int *ret_fd, pid_t *ret_pid, int *ret_pidfd, struct err *err);

int init_socket_pass_fd(int fd, int passed_fd, struct err *err);
