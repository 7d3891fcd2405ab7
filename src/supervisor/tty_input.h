/*
 * A client's input for a terminal. Each message is written as fast as the terminal takes it and then acknowledged, so that a
 * client that types faster than the program reads has to wait.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "supervisor/reactor.h"

struct client;

struct tty_input {
    int fd; /* owned, non-blocking: a duplicate of the master; -1: closed */
    struct reactor *reactor;
    struct watch watch;
    struct buf bytes; /* not yet written from `at` on */
    size_t at;
    struct client *client; /* borrowed: gets the acknowledgement; NULL: nobody */
    uint64_t tag;
};

#define TTY_INPUT_NONE ((struct tty_input){ .fd = -1 })

/* Keeps a duplicate; the descriptor stays the caller's. */
int tty_input_open(struct tty_input *tty_input, struct reactor *reactor, int pty_fd);
void tty_input_close(struct tty_input *tty_input); /* may be called twice */

/* The client gets OK once all bytes are written or never can be. -EBUSY while an earlier message is pending. */
int tty_input_write(struct tty_input *tty_input, struct client *client, uint64_t tag, const void *bytes, size_t len);

void tty_input_lose_client(struct tty_input *tty_input);
