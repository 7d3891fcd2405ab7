/*
 * Sockets that a server listens on, from what people write: "127.0.0.1:9000", "[::1]:9000", "localhost:9000", ":9000" (all addresses, both
 * families), "unix:/run/x.sock", or taken over from systemd.
 *
 * A unix socket's file is made under a name of its own and renamed into place, mode 0600 unless told; one that nobody listens on any
 * more is replaced, one that somebody does is left and refused. It is removed at the end, if it is still ours.
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
    bool is_loopback;  /* unix, or bound to a loopback address: the others need tokens */
};

#define LISTENER_NONE ((struct listener){ .fd = -1 })

int listener_open(struct listener *listener, const char *address, mode_t unix_mode, struct err *err);
/* Takes `fd`, whose socket is listening already. */
int listener_adopt(struct listener *listener, int fd, struct err *err);
void listener_done(struct listener *listener);
