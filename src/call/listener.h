/*
 * Sockets that a server listens on, from what people write: "127.0.0.1:9000", "[::1]:9000", "localhost:9000", ":9000" (all addresses, both
 * families, as "[::]:9000"), "unix:/run/x.sock", or taken over from systemd. Host names are not looked up; "localhost" is 127.0.0.1, and
 * ::1 only where there is no IPv4: for both, listen twice.
 *
 * A unix socket's file is made under a name of its own and renamed into place, mode 0600 unless told; one that nobody listens on any
 * more is replaced, one that somebody does is left and refused. It is removed at the end, if it is still ours. Two servers that start at
 * the same moment on the file of a dead one are not kept apart here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct listener {
    int fd;            /* owned; listening, non-blocking, close-on-exec; -1: none */
    char *text;        /* owned: where it listens, with the port that was given when 0 was asked for */
    char *unlink_path; /* owned; NULL: nothing to remove */
    dev_t unlink_dev;  /* what must still be at that path when it is removed */
    ino_t unlink_ino;
    bool is_loopback; /* unix, or bound to a loopback address: the others need tokens */
    bool is_unix;
};

#define LISTENER_NONE ((struct listener){ .fd = -1 })

/* `unix_mode` 0: 0600. -EADDRINUSE when somebody listens there already. */
int listener_open(struct listener *listener, const char *address, mode_t unix_mode, struct err *err);
/* Takes `fd`, whose socket is listening already; closes it on failure too. */
int listener_adopt(struct listener *listener, int fd, struct err *err);
void listener_done(struct listener *listener);
