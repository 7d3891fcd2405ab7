#include "supervisor/shell_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/buf.h"

static bool take_output(struct shell *shell, unsigned stream, const void *bytes, size_t len)
{
    return shell->current ? run_add_output(&shell->current->run, stream, bytes, len) : true;
}

static bool on_stdout(const void *bytes, size_t len, void *cookie)
{
    return take_output(cookie, 0, bytes, len);
}

static bool on_stderr(const void *bytes, size_t len, void *cookie)
{
    return take_output(cookie, 1, bytes, len);
}

/* Handles a line of the channel, "<number> <status>". Ignores any other line. */
static void shell_on_report_line(struct shell *shell, const char *text)
{
    unsigned long long number;
    int status, used = 0;

    if (sscanf(text, "%20llu %9d%n", &number, &status, &used) != 2 || text[used] || number != shell->number)
        return;
    if (shell->phase == SHELL_OPENING) {
        for (int i = 0; i < 2; i++)
            pipe_reader_drain(&shell->readers[i]);
        shell_notify_opener(shell, NULL);
        event_log_add(&shell->sandbox->event_log,
                      &(struct ctl_event){ .kind = CTL_EVENT_SESSION_OPENED, .subject = shell->name });
        shell_become_idle(shell);
    } else if (shell->phase == SHELL_SETTLING) {
        /* Messages about the signals belong to no command. */
        for (int i = 0; i < 2; i++)
            pipe_reader_drain(&shell->readers[i]);
        shell_become_idle(shell);
    } else if (shell->current) {
        shell_finish_current(shell, status & 255);
    }
}

static bool on_channel(const void *bytes, size_t len, void *cookie)
{
    struct shell *shell = cookie;

    for (size_t i = 0; i < len && shell->phase != SHELL_CLOSED; i++) {
        char c = ((const char *) bytes)[i];

        if (c == '\n') {
            shell->report[shell->report_len] = '\0';
            shell->report_len = 0;
            shell_on_report_line(shell, shell->report);
        } else {
            /* An overlong line is cut and then ignored, because it does not match. */
            shell->report[shell->report_len] = c;
            shell->report_len += shell->report_len < sizeof(shell->report) - 1;
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
    /* A shell that drops its input buffer must not have read more than one line. */
    int r = shell_stdin_open(&shell->shell_stdin, reactor, shell->shell_proto->forgets_input, &fds[0]);

    if (r == 0)
        r = pipe_reader_open(&shell->readers[0], reactor, on_stdout, at_pipe_end, shell, &fds[1]);
    if (r == 0)
        r = pipe_reader_open(&shell->readers[1], reactor, on_stderr, at_pipe_end, shell, &fds[2]);
    if (r == 0)
        r = pipe_reader_open(&shell->channel, reactor, on_channel, at_pipe_end, shell, &fds[3]);
    if (r < 0)
        return r;
    sandbox_chown_pipe(shell->sandbox, fds[1]);
    sandbox_chown_pipe(shell->sandbox, fds[2]);
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

int shell_request_report(struct shell *shell)
{
    autodone(buf) struct buf line = BUF_EMPTY;

    shell_proto_add_report_line(shell->shell_proto, &line, shell->number, shell->attempt++);
    return shell_stdin_write_line(&shell->shell_stdin, line.data);
}

/* A signal while the shell reads loses the line. If a request is still in the pipe, the shell will read it, and another one
 * would only delay the next command. */
void shell_request_report_again(struct shell *shell)
{
    if (shell_stdin_is_drained(&shell->shell_stdin))
        shell_request_report(shell);
}
