/*
 * init's only socket, to the supervisor. It exists before any command runs, it is CLOEXEC, and init never accepts another
 * connection: the peer stays the same for good.
 *
 * Reapers report on the same socket; packets stay whole whoever sends them.
 */
#pragma once

#include "wire/init_proto.h"

/* Returns the socket inherited as `fd`, or passed (SCM_RIGHTS) by the listener at `path`, or -errno (-ENOTSOCK, -EPROTOTYPE
 * if it is not a SOCK_SEQPACKET unix socket). */
int channel_inherit(int fd);
int channel_fetch(const char *path);

/* Sends a report, with a descriptor if `fd` is not negative. */
int channel_report(int channel, const struct init_report *report, int fd, enum frame_wait wait);
