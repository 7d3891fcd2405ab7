#include "wire/driver_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/program.h"

#define TRY_MS 10000
#define TEXT_MAX 4096

const char *const driver_trial_names[] = { "fence", "overlayfs", "copy", NULL };

int driver_trial_index(const char *name)
{
    for (int i = 0; driver_trial_names[i]; i++)
        if (strcmp(driver_trial_names[i], name) == 0)
            return i;
    return -1;
}

static void parse_line(const char *line, size_t len, struct driver_trial ret[DRIVER_TRIAL_COUNT])
{
    autofree char *text = xdupn(line, len);
    char *verdict = strchr(text, '\t'), *reason = verdict ? strchr(verdict + 1, '\t') : NULL;
    int i;

    if (!reason)
        return;
    *verdict++ = *reason++ = '\0';
    i = driver_trial_index(text);
    if (i < 0)
        return;
    ret[i].works = strcmp(verdict, "yes") == 0;
    snprintf(ret[i].reason, sizeof(ret[i].reason), "%s", reason);
}

void driver_trial_parse(const char *text, size_t len, struct driver_trial ret[DRIVER_TRIAL_COUNT])
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t) (end - text) : len;

        if (!memchr(text, '\0', line))
            parse_line(text, line, ret);
        if (!end)
            return;
        len -= line + 1;
        text = end + 1;
    }
}

static int driver_trial_spawn(const char *program, const char *dir, int out, struct proc *ret, struct err *err)
{
    const char *argv[] = { program, "--try", dir, NULL };
    const struct proc_fd fds[] = { { out, STDOUT_FILENO } };
    const struct proc_spec spec = { .argv = argv, .fds = fds, .fd_count = ARRAY_LEN(fds) };

    return proc_spawn(&spec, ret, err);
}

/* What it says fits into a pipe, so it is read when it has ended. */
static int driver_trial_query(const char *dir, struct buf *ret, struct err *err)
{
    autofree char *program = NULL;
    struct proc proc = PROC_NONE;
    int pair[2], status = 0;
    int r = program_find("agentfense-supervisor", &program, err);

    if (r < 0)
        return r;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "making a pipe");
    autofd int from = pair[0], to = pair[1];
    r = driver_trial_spawn(program, dir, to, &proc, err);
    close(steal_fd(&to));
    if (r < 0)
        return r;
    r = proc_wait_timeout(&proc, TRY_MS, &status);
    if (r < 0) {
        proc_signal(&proc, SIGKILL);
        proc_wait(&proc, &status);
        err_errno(err, r, "waiting for the trial");
    }
    proc_done(&proc);
    if (r == 0)
        r = fd_read_all(from, TEXT_MAX, ret);
    return r;
}

void driver_trial_run(const char *dir, struct driver_trial ret[DRIVER_TRIAL_COUNT])
{
    autodone(buf) struct buf text = BUF_EMPTY;
    struct err err = ERR_NONE;
    int r = driver_trial_query(dir, &text, &err);

    memset(ret, 0, DRIVER_TRIAL_COUNT * sizeof(*ret));
    if (r >= 0 && text.data)
        driver_trial_parse(text.data, text.len, ret);
    for (size_t i = 0; i < DRIVER_TRIAL_COUNT; i++)
        if (!*ret[i].reason)
            snprintf(ret[i].reason, sizeof(ret[i].reason), "it could not be tried%s%.200s", *err.text ? ": " : "", err.text);
}
