#include "base/list.h"
#include "supervisor/shell_int.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "runtime/runtime_spec.h"
#include "supervisor/environment.h"

static void at_open_timeout(void *cookie)
{
    shell_close_down(cookie, CTL_END_SESSION, 0, "the shell does not answer");
}

static int shell_spawn(struct shell *shell, const char *path, const struct ctl_command *wanted, const int fds[5])
{
    struct sandbox *sandbox = shell->sandbox;
    struct init_spawn request = { .flags = INIT_SPAWN_SESSION };
    autodone(environment) struct environment environment;
    const char *argv[8] = { path };
    struct init_command what = {
        .cwd = *wanted->cwd ? wanted->cwd : RUNTIME_WORKSPACE, .argv = argv, .fds = fds, .fd_count = 5
    };
    autofree char *shell_var = xprintf("SHELL=%s", path);

    for (size_t i = 0; shell->shell_proto->args[i]; i++)
        argv[i + 1] = shell->shell_proto->args[i];
    environment_init(&environment, sandbox->spec, wanted->envp);
    environment_set(&environment, shell_var);
    what.envp = (const char *const *) environment.vars;
    return task_start(&shell->task, &sandbox->link, &shell_task_ops, &request, &what);
}

static int shell_start(struct shell *shell, const char *path, const struct ctl_command *wanted)
{
    int fds[5] = { -1, -1, -1, -1, -1 };
    int r = shell_open_channels(shell, fds);

    if (r == 0)
        r = shell_spawn(shell, path, wanted, fds);
    for (int i = 0; i < 5; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    if (r < 0)
        return r;
    shell_next_number(shell);
    r = shell_stdin_write_line(&shell->shell_stdin, shell->shell_proto->preamble);
    if (r == 0)
        r = shell_request_report(shell);
    /* A shell that has failed already is reported by its task. */
    return r == -EPIPE ? 0 : r;
}

static struct shell *shell_new(struct sandbox *sandbox, const char *path)
{
    struct shell *shell = xnew(struct shell);

    shell->sandbox = sandbox;
    shell->shell_proto = shell_proto_of(path);
    shell->shell_stdin = SHELL_STDIN_NONE;
    shell->text_fd = -1;
    shell->readers[0] = shell->readers[1] = shell->channel = PIPE_READER_NONE;
    shell->began_ns = clock_now_ns();
    list_add(&sandbox->shells, shell);
    sandbox->shell_count++;
    return shell;
}

int shell_open(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
               const struct ctl_command *wanted, struct err *err)
{
    const char *path = asked->argc > 0 ? wanted->argv[0] : shell_proto_default_shell();
    struct shell *shell;
    int r;

    if (*wanted->name && shell_find(sandbox, wanted->name))
        return err_set(err, ERR_ALREADY_EXISTS, -EEXIST, "there is a session named '%s' already", wanted->name);
    shell = shell_new(sandbox, path);
    if (*wanted->name)
        memcpy(shell->name, wanted->name, strlen(wanted->name) + 1);
    else
        id_new("se_", shell->name);
    shell->idle_ms = asked->timeout_ms;
    r = shell_start(shell, path, wanted);
    if (r < 0) {
        shell_free(shell);
        return err_errno(err, r, "starting the shell '%s'", path);
    }
    shell->opener = client;
    shell->opener_tag = tag;
    timer_start(&shell->timer, &sandbox->reactor, SHELL_ANSWER_MS, at_open_timeout, shell);
    return 0;
}
