/*
 * A pseudo-terminal from the sandbox's own /dev/ptmx, so that ttyname() finds the slave inside.
 */
#pragma once

#include <stdint.h>

struct tty {
    int master; /* owned */
    int slave;  /* owned */
};

#define TTY_NONE ((struct tty){ .master = -1, .slave = -1 })

/* Returns 0 or -errno. Both are CLOEXEC; the slave does not become our controlling terminal. */
int tty_open(uint16_t rows, uint16_t cols, struct tty *ret);

/* Gives the slave to another user, as login does. */
int tty_chown(const struct tty *tty, uint32_t uid);

void tty_close(struct tty *tty);
