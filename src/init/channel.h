/*
 * init's one socket, to the supervisor. It is there before any command runs, it is CLOEXEC, and nothing is ever accepted on
 * it: whoever is at the other end then is there for good.
 *
 * Reapers report on the same socket; a packet is whole whoever sends it.
 */
#pragma once

#include "wire/init_proto.h"

/* The socket inherited as `fd`, or handed over (SCM_RIGHTS) by whoever listens at `path`. The descriptor or -errno (-ENOTSOCK, -EPROTOTYPE when it is no
 * SOCK_SEQPACKET of the unix kind). */
int channel_inherit(int fd);
int channel_fetch(const char *path);

/* Sends a report, with one descriptor if `fd` is one. */
int channel_report(int channel, const struct init_report *report, int fd, enum frame_wait wait);
