#include "init/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

#define NAME_ROOM 32
#define SLAVE_FLAGS (O_RDWR | O_NOCTTY | O_CLOEXEC)

/* Formats "/dev/pts/<number>" without stdio, from the end. Returns its beginning. */
static const char *slave_name(unsigned number, char room[NAME_ROOM])
{
    static const char directory[] = "/dev/pts/";
    char *at = room + NAME_ROOM - 1;

    *at = '\0';
    do
        *--at = (char) ('0' + number % 10);
    while ((number /= 10) > 0);
    at -= sizeof(directory) - 1;
    return memcpy(at, directory, sizeof(directory) - 1);
}

/* Uses the master's ioctl (Linux 4.13), which needs no path; by name if a filter or an emulated kernel lacks it. */
static int open_slave(int master)
{
    unsigned number = 0;
    char room[NAME_ROOM];
    int fd = ioctl(master, TIOCGPTPEER, SLAVE_FLAGS);

    if (fd >= 0)
        return fd;
    if (ioctl(master, TIOCGPTN, &number) < 0)
        return -errno;
    fd = open(slave_name(number, room), SLAVE_FLAGS);
    return fd < 0 ? -errno : fd;
}

int tty_open(uint16_t rows, uint16_t cols, struct tty *ret)
{
    const struct winsize size = { .ws_row = rows, .ws_col = cols };
    autofd int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    int unlocked = 0, slave;

    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) < 0 || ioctl(master, TIOCSWINSZ, &size) < 0)
        return -errno;
    slave = open_slave(master);
    if (slave < 0)
        return slave;
    *ret = (struct tty){ .master = steal_fd(&master), .slave = slave };
    return 0;
}

int tty_chown(const struct tty *tty, uint32_t uid)
{
    return fchown(tty->slave, uid, (gid_t) -1) < 0 ? -errno : 0;
}

void tty_close(struct tty *tty)
{
    cleanup_fd(&tty->master);
    cleanup_fd(&tty->slave);
    *tty = TTY_NONE;
}
