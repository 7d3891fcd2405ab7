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

struct typing {
    int fd; /* owned, non-blocking: a descriptor of the master; -1: closed */
    struct reactor *reactor;
    struct watch watch;
    struct buf bytes; /* what the terminal has not taken yet, from `at` on */
    size_t at;
    struct client *client; /* borrowed: who is told; NULL: nobody */
    uint64_t tag;
};

#define TYPING_NONE ((struct typing){ .fd = -1 })

/* The descriptor stays the caller's: a duplicate is kept. */
int typing_open(struct typing *typing, struct reactor *reactor, int pty_fd);
void typing_close(struct typing *typing); /* those that are closed too */

/* The client hears OK when all of it is in the terminal, or can never be. -EBUSY while an earlier message is not. */
int typing_take(struct typing *typing, struct client *client, uint64_t tag, const void *bytes, size_t len);

void typing_lose_client(struct typing *typing);
