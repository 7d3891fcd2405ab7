#include "init/reaper.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/channel.h"
#include "init/child.h"
#include "init/tty.h"

/* Too large for a stack. Only the used part costs memory, and only in this process. */
static char *vector_room[INIT_STRINGS_COUNT_MAX + 2];

static void set_state(const struct reaper *k, enum exec_phase state)
{
    atomic_store(&k->state->state, state);
}

static void reaper_report(const struct reaper *k, struct init_report *report, int fd)
{
    report->id = k->id;
    /* If the supervisor reads slowly, we wait, not init. If it is gone, init ends and so do we. */
    channel_report(k->channel, report, fd, FRAME_WAIT);
}

static _Noreturn void reaper_fail(const struct reaper *k, enum init_step step, int error)
{
    struct init_report m = { .type = INIT_REPORT_SPAWN_FAILED, .spawn_failed = { .error = error, .step = step } };

    reaper_report(k, &m, -1);
    set_state(k, EXEC_GONE);
    _exit(0);
}

static void become_reaper(const struct reaper *k)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        reaper_fail(k, INIT_STEP_REAPER, errno);
    if (!k->follows)
        return;
    /* An init that died before this call sends no signal any more. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != k->init)
        _exit(0);
}

static void open_terminal(const struct reaper *k, struct tty *tty, struct child *child)
{
    int r;

    if (!(k->spawn->flags & INIT_SPAWN_TTY))
        return;
    r = tty_open(k->spawn->rows, k->spawn->cols, tty);
    if (r == 0 && k->spawn->flags & INIT_SPAWN_USER)
        r = tty_chown(tty, k->spawn->uid);
    if (r < 0)
        reaper_fail(k, INIT_STEP_TTY, -r);
    for (; child->fd_count < 3; child->fd_count++)
        child->fds[child->fd_count] = tty->slave;
}

static void borrow_fds(const struct reaper *k, struct child *child)
{
    size_t count = init_spawn_fd_count(k->spawn, k->frame);

    for (size_t i = 0; i < count; i++)
        child->fds[child->fd_count++] = k->frame->fds[i];
}

/* Sends the signal that init could not send yet (exec_state.h). The command leads its group, and no process can have left it
 * so early. */
static void send_early_signal(const struct reaper *k, pid_t pid)
{
    int signal = atomic_exchange(&k->state->signal, 0);

    if (signal != 0)
        kill(-pid, signal);
}

static void report_started(const struct reaper *k, pid_t pid, const struct tty *tty)
{
    struct init_report spawned = { .type = INIT_REPORT_SPAWNED, .spawned = { .pid = (uint32_t) pid } };
    struct init_report pty = { .type = INIT_REPORT_PTY };

    atomic_store(&k->state->main_pid, pid);
    set_state(k, EXEC_RUNNING);
    send_early_signal(k, pid);
    reaper_report(k, &spawned, -1);
    if (tty->master >= 0)
        reaper_report(k, &pty, tty->master);
}

/* Returns the main process, with all descriptors of the exec closed here: a reader of its output must see the end of file,
 * even while we wait to send our report. */
static pid_t reaper_start_command(const struct reaper *k)
{
    struct child child = { .spawn = k->spawn };
    struct tty tty = TTY_NONE;
    pid_t pid;
    int r;

    r = init_spawn_map_strings(k->spawn, k->frame);
    if (r < 0)
        reaper_fail(k, INIT_STEP_REQUEST, r == -EPROTO ? EINVAL : -r);
    init_spawn_vectors(k->spawn, vector_room, &child.vectors);
    open_terminal(k, &tty, &child);
    borrow_fds(k, &child);
    pid = child_start(&child);
    if (pid < 0)
        reaper_fail(k, child.step, child.error);
    frame_close_fds(k->frame);
    report_started(k, pid, &tty);
    init_spawn_unmap_strings(k->spawn);
    tty_close(&tty);
    return pid;
}

static uint64_t reaper_microseconds(struct timeval t)
{
    return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_usec;
}

static void report_exited(const struct reaper *k, int status, const struct rusage *usage)
{
    struct init_report m = { .type = INIT_REPORT_EXITED,
                             .exited = { .status = status,
                                         .user_us = reaper_microseconds(usage->ru_utime),
                                         .system_us = reaper_microseconds(usage->ru_stime),
                                         .max_rss_kib = (uint64_t) usage->ru_maxrss } };

    reaper_report(k, &m, -1);
    set_state(k, EXEC_REPORTED);
}

/* Waits for any process of the exec to end; orphans become our children. Returns false if there are none left. */
static bool reap_one(const struct reaper *k, pid_t main_pid)
{
    struct rusage usage;
    siginfo_t info;
    int status;

    if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) < 0)
        return errno == EINTR;
    if (info.si_pid == main_pid)
        set_state(k, EXEC_ENDED);
    if (wait4(info.si_pid, &status, 0, &usage) == info.si_pid && info.si_pid == main_pid)
        report_exited(k, status, &usage);
    return true;
}

_Noreturn void reaper_run(const struct reaper *k)
{
    struct init_report gone = { .type = INIT_REPORT_GONE };
    pid_t main_pid;

    become_reaper(k);
    main_pid = reaper_start_command(k);
    while (reap_one(k, main_pid))
        ;
    reaper_report(k, &gone, -1);
    set_state(k, EXEC_GONE);
    _exit(0);
}
