/*
 * A socket that a server listens on. The address is written as "127.0.0.1:9000", "[::1]:9000", "localhost:9000", ":9000" (all addresses of both
 * families, like "[::]:9000") or "unix:/run/x.sock"; systemd may also pass the socket in. Host names are not resolved; "localhost" is 127.0.0.1,
 * or ::1 on a host without IPv4. To listen on both, open two listeners.
 *
 * listener_open() creates a unix socket under a temporary name and renames it into place, with mode 0600 by default. It replaces a socket
 * that nobody listens on any more and fails if somebody listens. listener_done() removes the file if it is still the same one. Two servers that
 * start at the same moment over the socket of a dead server are not kept apart here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct listener {
    int fd;            /* owned; listening, non-blocking, close-on-exec; -1: none */
    char *text;        /* owned: where it listens, with the port that was given when 0 was asked for */
    char *unlink_path; /* owned; NULL: there is nothing to remove */
    dev_t unlink_dev;  /* listener_done() removes the path only while it has this device and inode */
    ino_t unlink_ino;
    bool is_loopback; /* unix, or bound to a loopback address; clients of other listeners need tokens */
    bool is_unix;
};

#define LISTENER_NONE ((struct listener){ .fd = -1 })

/* `unix_mode` 0: 0600. -EADDRINUSE when somebody listens there already. */
int listener_open(struct listener *listener, const char *address, mode_t unix_mode, struct err *err);
/* Takes `fd`, whose socket is listening already; closes it on failure too. */
int listener_adopt(struct listener *listener, int fd, struct err *err);
void listener_done(struct listener *listener);
