/*
 * What a client types into a terminal: one message at a time, written as the terminal takes it, and then acknowledged, so that who
 * types faster than the program reads waits at the far end.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "supervisor/reactor.h"

struct client;

struct tty_input {
    int fd; /* owned, non-blocking: a descriptor of the master; -1: closed */
    struct reactor *reactor;
    struct watch watch;
    struct buf bytes; /* what the terminal has not taken yet, from `at` on */
    size_t at;
    struct client *client; /* borrowed: who is told; NULL: nobody */
    uint64_t tag;
};

#define TTY_INPUT_NONE ((struct tty_input){ .fd = -1 })

/* The descriptor stays the caller's: a duplicate is kept. */
int tty_input_open(struct tty_input *tty_input, struct reactor *reactor, int pty_fd);
void tty_input_close(struct tty_input *tty_input); /* those that are closed too */

/* The client hears OK when all of it is in the terminal, or can never be. -EBUSY while an earlier message is not. */
int tty_input_write(struct tty_input *tty_input, struct client *client, uint64_t tag, const void *bytes, size_t len);

void tty_input_lose_client(struct tty_input *tty_input);
