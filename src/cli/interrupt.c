#include "cli/interrupt.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

static int fd = -1, window_fd = -1;

static int take(const sigset_t *set)
{
    int r;

    if (sigprocmask(SIG_BLOCK, set, NULL) < 0)
        return -errno;
    r = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    return r < 0 ? -errno : r;
}

int interrupt_init(void)
{
    struct sigaction action;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGQUIT);
    /* nohup(1) ignores SIGHUP; the kernel queues a blocked signal even if it is ignored, so SIGHUP must not be blocked then. */
    if (sigaction(SIGHUP, NULL, &action) < 0 || action.sa_handler != SIG_IGN)
        sigaddset(&set, SIGHUP);
    fd = take(&set);
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGCONT);
    window_fd = take(&set);
    return fd < 0 ? fd : window_fd < 0 ? window_fd : 0;
}

int interrupt_fd(void)
{
    return fd;
}

int interrupt_window_fd(void)
{
    return window_fd;
}

int interrupt_window_signal(void)
{
    struct signalfd_siginfo info;

    return read(window_fd, &info, sizeof(info)) == (ssize_t) sizeof(info) ? (int) info.ssi_signo : 0;
}

int interrupt_exit_code(void)
{
    struct signalfd_siginfo info;

    return read(fd, &info, sizeof(info)) == (ssize_t) sizeof(info) ? 128 + (int) info.ssi_signo : 0;
}

/* Returns 0 when `other_fd` is ready, as regular files always are, or -ECANCELED after an interrupt. */
static int wait_for(int other_fd, short events)
{
    struct pollfd fds[] = { { .fd = fd, .events = POLLIN }, { .fd = other_fd, .events = events } };

    while (poll(fds, 2, -1) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return fds[0].revents ? -ECANCELED : 0;
}

ssize_t interrupt_read(int from_fd, void *bytes, size_t size)
{
    int r = wait_for(from_fd, POLLIN);
    ssize_t n = r < 0 ? r : read(from_fd, bytes, size);

    return n < 0 && r == 0 ? -errno : n;
}

int interrupt_write(int to_fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    struct stat st;
    bool is_pipe = fstat(to_fd, &st) == 0 && !S_ISREG(st.st_mode);

    while (len > 0) {
        /* poll(2) promises room for PIPE_BUF bytes in a pipe. A larger write could block, and an interrupt would not end it. */
        size_t piece = is_pipe && len > PIPE_BUF ? PIPE_BUF : len;
        int r = wait_for(to_fd, POLLOUT);
        ssize_t n = r < 0 ? -1 : write(to_fd, at, piece);

        if (r < 0)
            return r;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (n > 0) {
            at += n;
            len -= (size_t) n;
        }
    }
    return 0;
}
