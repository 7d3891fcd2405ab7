#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int fd = -1;

int interrupt_init(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : 0;
}

int interrupt_fd(void)
{
    return fd;
}

int interrupt_exit_code(void)
{
    struct signalfd_siginfo info;

    return read(fd, &info, sizeof(info)) == (ssize_t) sizeof(info) ? 128 + (int) info.ssi_signo : 0;
}
