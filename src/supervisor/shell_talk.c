#include "supervisor/shell_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/buf.h"

static bool take_output(struct shell *shell, unsigned stream, const void *bytes, size_t len)
{
    return shell->current ? run_take_output(&shell->current->run, stream, bytes, len) : true;
}

static bool take_out(const void *bytes, size_t len, void *cookie)
{
    return take_output(cookie, 0, bytes, len);
}

static bool take_err(const void *bytes, size_t len, void *cookie)
{
    return take_output(cookie, 1, bytes, len);
}

/* One line of the channel: "<number> <status>". Whatever else comes is none of ours. */
static void hear(struct shell *shell, const char *text)
{
    unsigned long long number;
    int status, used = 0;

    if (sscanf(text, "%20llu %9d%n", &number, &status, &used) != 2 || text[used] || number != shell->number)
        return;
    if (shell->phase == SHELL_OPENING) {
        for (int i = 0; i < 2; i++)
            tap_drain(&shell->taps[i]);
        shell_tell_opener(shell, NULL);
        chronicle_add(&shell->sandbox->chronicle,
                      &(struct ctl_event){ .kind = CTL_EVENT_SESSION_OPENED, .subject = shell->name });
        shell_become_idle(shell);
    } else if (shell->phase == SHELL_SETTLING) {
        /* What it says of the signals is nobody's output. */
        for (int i = 0; i < 2; i++)
            tap_drain(&shell->taps[i]);
        shell_become_idle(shell);
    } else if (shell->current) {
        shell_finish_current(shell, status & 255);
    }
}

static bool take_channel(const void *bytes, size_t len, void *cookie)
{
    struct shell *shell = cookie;

    for (size_t i = 0; i < len && shell->phase != SHELL_CLOSED; i++) {
        char c = ((const char *) bytes)[i];

        if (c == '\n') {
            shell->heard[shell->heard_len] = '\0';
            shell->heard_len = 0;
            hear(shell, shell->heard);
        } else {
            /* A line that is too long is none of ours either: its end is cut, and it will not match. */
            shell->heard[shell->heard_len] = c;
            shell->heard_len += shell->heard_len < sizeof(shell->heard) - 1;
        }
    }
    return true;
}

static void at_pipe_end(void *cookie)
{
    (void) cookie;
}

int shell_open_channels(struct shell *shell, int fds[5])
{
    struct reactor *reactor = &shell->sandbox->reactor;
    /* A shell that forgets its input must not have read more than a line of it. */
    int r = script_open(&shell->script, reactor, shell->dialect->forgets_input, &fds[0]);

    if (r == 0)
        r = tap_open(&shell->taps[0], reactor, take_out, at_pipe_end, shell, &fds[1]);
    if (r == 0)
        r = tap_open(&shell->taps[1], reactor, take_err, at_pipe_end, shell, &fds[2]);
    if (r == 0)
        r = tap_open(&shell->channel, reactor, take_channel, at_pipe_end, shell, &fds[3]);
    if (r < 0)
        return r;
    sandbox_give_pipe(shell->sandbox, fds[1]);
    sandbox_give_pipe(shell->sandbox, fds[2]);
    shell->text_fd = memfd_create("command", MFD_CLOEXEC);
    if (shell->text_fd < 0)
        return -errno;
    fds[4] = fcntl(shell->text_fd, F_DUPFD_CLOEXEC, 3);
    return fds[4] < 0 ? -errno : 0;
}

void shell_next_number(struct shell *shell)
{
    shell->number++;
    shell->attempt = 0;
}

int shell_say_report(struct shell *shell)
{
    autodone(buf) struct buf line = BUF_EMPTY;

    dialect_add_report_line(shell->dialect, &line, shell->number, shell->attempt++);
    return script_say(&shell->script, line.data);
}

/* A signal that comes while it reads takes the line with it. What is still in the pipe it will read, and to say more there would
 * only be in the way of the next command. */
void shell_ask_again(struct shell *shell)
{
    if (script_is_read(&shell->script))
        shell_say_report(shell);
}
