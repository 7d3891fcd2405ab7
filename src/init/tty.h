/*
 * A terminal of the sandbox: a pair from its own /dev/ptmx, so that the slave has a name inside and ttyname() finds it.
 */
#pragma once

#include <stdint.h>

struct tty {
    int master; /* owned */
    int slave;  /* owned */
};

#define TTY_NONE ((struct tty){ .master = -1, .slave = -1 })

/* 0 or -errno. Both CLOEXEC; the slave does not become our controlling terminal. */
int tty_open(uint16_t rows, uint16_t cols, struct tty *ret);

/* Makes the slave that of another user, as login does. */
int tty_chown(const struct tty *tty, uint32_t uid);

void tty_close(struct tty *tty);
