/*
 * agentfense-init: the process inside a sandbox that starts commands for its supervisor and reports how they end.
 *
 *     agentfense-init --fd N          uses the inherited socket to the supervisor
 *     agentfense-init --socket PATH   gets the socket from the listener at PATH, if nothing can be inherited
 *
 * Runs best as pid 1. It needs no file of its image, no shell, no /proc (but see kill_tree.h) and no privilege. It has nothing
 * that an agent could want: nobody trusts its reports, and it can do nothing that a command could not.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/channel.h"
#include "init/loop.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define FALLBACK_FDS_MAX 4096

static int init_print_error(enum init_exit code, const char *text, int r)
{
    const char *reason = r < 0 ? strerror(-r) : "";
    const char *parts[] = { "agentfense-init: ", text, r < 0 ? ": " : "", reason, "\n" };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0)
            break;
    return code;
}

/* Parses a descriptor's number; -1 if it is invalid. */
static int parse_fd(const char *text)
{
    int fd = 0;

    if (*text == '\0' || strlen(text) > 6)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        fd = fd * 10 + (*text - '0');
    }
    return fd;
}

/* Closes descriptors that our starter forgot to close, before commands run. */
static void close_others(int channel)
{
    if (channel > 3)
        syscall(SYS_close_range, 3, channel - 1, 0);
    if (syscall(SYS_close_range, channel < 3 ? 3 : channel + 1, ~0u, 0) == 0)
        return;
    for (int fd = 3; fd < FALLBACK_FDS_MAX; fd++)
        if (fd != channel)
            close(fd);
}

/* Commands inherit default dispositions and no set-user-ID rights from us. libc does not allow setting its own signals (32,
 * 33), so this calls the kernel; all zeros mean SIG_DFL on every architecture. */
static void reset_signals(void)
{
    static const char all_zero[64];
    sigset_t all;

    for (int signal = 1; signal < NSIG; signal++)
        syscall(SYS_rt_sigaction, signal, all_zero, NULL, (NSIG - 1) / 8);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
}

/* Not dumpable: no command of the same user may trace us, read our memory or take our descriptors. */
static int init_prepare_process(void)
{
    reset_signals();
    umask(022);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || chdir("/") < 0)
        return -errno;
    return 0;
}

int main(int argc, char **argv)
{
    static struct loop loop;
    int channel = -EINVAL, r;

    if (argc == 3 && strcmp(argv[1], "--fd") == 0 && parse_fd(argv[2]) >= 0)
        channel = channel_inherit(parse_fd(argv[2]));
    else if (argc == 3 && strcmp(argv[1], "--socket") == 0)
        channel = channel_fetch(argv[2]);
    else
        return init_print_error(INIT_EXIT_USAGE, "usage: agentfense-init --fd N | --socket PATH", 0);
    if (channel < 0)
        return init_print_error(INIT_EXIT_SETUP, "taking the supervisor's socket", channel);
    close_others(channel);
    r = init_prepare_process();
    if (r == 0)
        r = loop_open(&loop, channel);
    if (r < 0)
        return init_print_error(INIT_EXIT_SETUP, "setting up", r);
    return loop_run(&loop);
}
