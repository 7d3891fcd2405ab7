/* shell and attach: connect our terminal to one in a sandbox. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/console.h"
#include "cli/lookup.h"
#include "cli/setting_options.h"
#include <sandbox/v1/process.pb-c.h>

static const char help_shell[] =
    "usage: agentfense shell [options] SANDBOX\n\n"
    "Opens a shell in a running sandbox, on this terminal: every key goes to it, Ctrl-C too. Without a terminal the shell "
    "reads\n"
    "its commands from standard input. Ctrl-P Ctrl-Q leaves it running, and 'agentfense attach' comes back. A synced sandbox\n"
    "syncs its changes into the codebase when it ends.\n\n"
    "  -s, --shell SHELL      which; without: bash if there is one, otherwise sh\n"
    "  -e, --env NAME[=VALUE] set a variable; without a value, ours\n"
    "  --env-file FILE        set the variables of a file of NAME=VALUE lines\n"
    "  -w, --workdir DIR      where it starts; relative to /workspace\n"
    "  --detach-keys KEYS     what leaves it running (default: ctrl-p,ctrl-q); '' for nothing\n" API_LAST_HELP API_OPTIONS_HELP
    "\nExit codes: the shell's own; 125 when we failed or the connection was lost, 2 for a bad call.\n";

static const char help_attach[] =
    "usage: agentfense attach [options] SANDBOX [PROCESS]\n\n"
    "Comes back to a terminal that was left running, and shows the end of what it printed. Without PROCESS (its id, or its "
    "pid)\n"
    "it is the one that runs. One client is attached at a time.\n\n"
    "  --detach-keys KEYS     what leaves it running (default: ctrl-p,ctrl-q); '' for nothing\n" API_LAST_HELP API_OPTIONS_HELP
    "\nExit codes: the command's own; 125 when we failed or the connection was lost, 2 for a bad call.\n";

enum { OPT_ENV_FILE = 1, OPT_DETACH_KEYS };

static const struct option options[] = {
    { "shell", required_argument, NULL, 's' },
    { "env", required_argument, NULL, 'e' },
    { "env-file", required_argument, NULL, OPT_ENV_FILE },
    { "workdir", required_argument, NULL, 'w' },
    { "detach-keys", required_argument, NULL, OPT_DETACH_KEYS },
    API_LONG_OPTIONS,
};

static const struct option attach_options[] = {
    { "detach-keys", required_argument, NULL, OPT_DETACH_KEYS },
    API_LONG_OPTIONS,
};

struct shell_options {
    struct entry_list env;
    const char *shell, *workdir, *detach_keys;
};

static int shell_take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct shell_options *o = call->own;

    switch (option) {
    case 's':
        o->shell = argument;
        return 0;
    case 'e':
        return entry_list_add_env(&o->env, argument, err);
    case OPT_ENV_FILE:
        return entry_list_add_env_file(&o->env, argument, err);
    case 'w':
        o->workdir = argument;
        return 0;
    default:
        o->detach_keys = argument;
        return 0;
    }
}

static int shell_check(struct api_call *call, struct err *err)
{
    const struct shell_options *o = call->own;
    struct detach_keys keys;

    if (call->options.is_json)
        return err_invalid(err, "a terminal has no --json");
    return detach_keys_parse(&keys, o->detach_keys ? o->detach_keys : "", err);
}

static int shell_run(struct api_call *call, struct err *err)
{
    /* Only inside the sandbox is it known which shells exist, so /bin/sh finds the best one there. */
    static const char best[] = "command -v bash >/dev/null 2>&1 && exec bash; exec sh";
    const struct shell_options *o = call->own;
    autofree char *chosen = o->shell ? xprintf("exec %s", o->shell) : xdup(best), *id = NULL;
    char *words[] = { chosen, NULL };
    struct console console = {
        .words = words,
        .workdir = o->workdir,
        .env = &o->env,
        .is_tty = isatty(STDIN_FILENO),
        .takes_stdin = true,
        .detach_keys = o->detach_keys,
    };
    int r = lookup_sandbox(call->client, call->words[0], &id, err);

    console.sandbox = id;
    if (r == 0)
        r = console_run(call, &console, err);
    return lookup_explain_stopped(call->words[0], r, err);
}

/* ---- attach ---- */

struct terminals {
    struct buf ids; /* separated by commas */
    size_t count;
};

static int attach_on_process(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    const Sandbox__V1__Process *process = (const void *) item;
    struct terminals *found = cookie;

    (void) err;
    /* A process with a user_time has exited, and only its background children still run, without a terminal. */
    if (process->terminal && process->status == SANDBOX__V1__PROCESS_STATUS__PROCESS_STATUS_RUNNING && !process->user_time)
        buf_addf(&found->ids, "%s%s", found->count++ > 0 ? ", " : "", process->id);
    return 0;
}

static int attach_choose_process(struct api_call *call, char *id, char **ret, struct err *err)
{
    Sandbox__V1__ListProcessesRequest request = SANDBOX__V1__LIST_PROCESSES_REQUEST__INIT;
    struct terminals found = { .ids = BUF_EMPTY };
    int r;

    request.sandbox_id = id;
    request.running = true;
    r = client_list(call->client, "ListProcesses", &request.base, attach_on_process, &found, err);
    if (r == 0 && found.count == 0)
        r = err_set(err, ERR_NOT_FOUND, -ENOENT, "no terminal runs in '%s'; 'agentfense shell %s' opens one", call->words[0],
                    call->words[0]);
    else if (r == 0 && found.count > 1)
        r = err_set(err, ERR_FAILED_PRECONDITION, -EEXIST, "%zu terminals run in '%s', name one of: %s", found.count,
                    call->words[0], found.ids.data);
    else if (r == 0)
        *ret = xdup(found.ids.data);
    buf_done(&found.ids);
    return r;
}

static int attach_run_verb(struct api_call *call, struct err *err)
{
    const struct shell_options *o = call->own;
    autofree char *process = call->word_count > 1 ? xdup(call->words[1]) : NULL, *id = NULL;
    struct console console = { .is_tty = true, .takes_stdin = true, .detach_keys = o->detach_keys };
    int r = lookup_sandbox(call->client, call->words[0], &id, err);

    if (r == 0 && !process)
        r = attach_choose_process(call, id, &process, err);
    console.sandbox = id;
    console.process = process;
    return r < 0 ? r : console_run(call, &console, err);
}

static void shell_done(struct api_call *call)
{
    struct shell_options *o = call->own;

    entry_list_done(&o->env);
}

int cmd_shell(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "shell",
        .last = API_LAST_SANDBOX,
        .help = help_shell,
        .letters = "s:e:w:",
        .options = options,
        .words_min = 1,
        .words_max = 1,
        .own_size = sizeof(struct shell_options),
        .take = shell_take,
        .check = shell_check,
        .run = shell_run,
        .done = shell_done,
    };

    return api_verb_run(&verb, argc, argv);
}

int cmd_attach(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "attach",
        .last = API_LAST_SANDBOX,
        .help = help_attach,
        .options = attach_options,
        .words_min = 1,
        .words_max = 2,
        .own_size = sizeof(struct shell_options),
        .take = shell_take,
        .check = shell_check,
        .run = attach_run_verb,
        .done = shell_done,
    };

    return api_verb_run(&verb, argc, argv);
}
