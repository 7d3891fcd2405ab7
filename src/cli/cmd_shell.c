/* shell and attach: a terminal of a sandbox on ours. */
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
#include "cli/workspace.h"
#include "cli/workspace_command.h"

static const char help_shell[] =
    "usage: agentfense shell [options] SANDBOX\n\n"
    "A shell in a sandbox that was started, on this terminal: every key goes to it, Ctrl-C too. Without a terminal the shell\n"
    "reads its commands from standard input. Ctrl-P Ctrl-Q leaves it running, and 'agentfense attach' comes back. What it\n"
    "changed goes into the codebase when it ends, unless the sandbox was made with --no-sync.\n\n"
    "  -s, --shell SHELL      which; without: bash if there is one, otherwise sh\n"
    "  -e, --env NAME[=VALUE] set a variable; without a value, ours\n"
    "  --env-file FILE        set the variables of a file of NAME=VALUE lines\n"
    "  -w, --workdir DIR      where it starts; relative to the workspace\n"
    "  --detach-keys KEYS     what leaves it running: ctrl-p,ctrl-q unless told; '' for nothing\n" API_LAST_HELP
        API_OPTIONS_HELP "\nExit codes: the shell's own; 125 when we failed or the connection was lost, 2 for a bad call.\n";

static const char help_attach[] =
    "usage: agentfense attach [options] SANDBOX [PROCESS]\n\n"
    "Comes back to a terminal that was left running, and shows the end of what it printed. Without PROCESS (its id, or its "
    "pid)\n"
    "it is the one that runs. One client is attached at a time.\n\n"
    "  --detach-keys KEYS     what leaves it running: ctrl-p,ctrl-q unless told; '' for nothing\n" API_LAST_HELP
        API_OPTIONS_HELP "\nExit codes: the command's own; 125 when we failed or the connection was lost, 2 for a bad call.\n";

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

static int take(struct api_call *call, int option, const char *argument, struct err *err)
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

static int check(struct api_call *call, struct err *err)
{
    const struct shell_options *o = call->own;
    struct detach_keys keys;

    if (call->options.is_json)
        return err_invalid(err, "a terminal is for people: there is no --json of it");
    return detach_keys_parse(&keys, o->detach_keys ? o->detach_keys : "", err);
}

static int run_shell(struct api_call *call, struct err *err)
{
    /* In the sandbox's own words, since what is there is only known there. */
    static const char best[] = "command -v bash >/dev/null 2>&1 && exec bash; exec sh";
    const struct shell_options *o = call->own;
    autodone(target) struct target target = { .id = NULL };
    autofree char *chosen = o->shell ? xprintf("exec %s", o->shell) : xdup(best);
    char *words[] = { chosen, NULL };
    struct workspace_command command = {
        .words = words,
        .workdir = o->workdir,
        .env = &o->env,
        .is_tty = isatty(STDIN_FILENO),
        .takes_stdin = true,
        .detach_keys = o->detach_keys,
    };
    int r = target_find(call->client, call->words[0], &target, err);

    if (r == 0)
        r = command_in_workspace(call, target.id ? target.id : target.workspace, &command, err);
    return lookup_tell_stopped(call->words[0], r, err);
}

/* ---- attach ---- */

/* The one terminal whose command runs. What such a command left in the background runs on without a terminal. */
static int choose_process(struct api_call *call, const char *id, char **ret, struct err *err)
{
    autodone(buf) struct buf found = BUF_EMPTY;
    autojson answer = NULL;
    json_t *item;
    size_t i, count = 0;
    int r = workspace_ask(call, "GET", NULL, &answer, err, "/api/v1/sandboxes/%s/processes?running=true", id);

    if (r < 0)
        return r;
    json_array_foreach(json_object_get(answer, "processes"), i, item)
    {
        if (json_is_true(json_object_get(item, "tty")) && !json_object_get(item, "exitCode"))
            buf_addf(&found, "%s%s", count++ > 0 ? ", " : "", json_text(item, "id"));
    }
    if (count == 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "no terminal runs in '%s'", call->words[0]);
    if (count > 1)
        return err_set(err, ERR_FAILED_PRECONDITION, -EEXIST, "%zu terminals run in '%s', say which: %s", count, call->words[0],
                       found.data);
    *ret = xdup(found.data);
    return 0;
}

static int run_attach(struct api_call *call, struct err *err)
{
    const struct shell_options *o = call->own;
    autodone(target) struct target target = { .id = NULL };
    autofree char *process = call->word_count > 1 ? xdup(call->words[1]) : NULL;
    struct console console = { .is_tty = true, .takes_stdin = true };
    int r = target_find(call->client, call->words[0], &target, err);

    console.sandbox = target.id ? target.id : target.workspace;
    if (r == 0 && !process)
        r = choose_process(call, console.sandbox, &process, err);
    console.process = process;
    if (r == 0)
        r = detach_keys_parse(&console.keys, o->detach_keys ? o->detach_keys : DETACH_KEYS_DEFAULT, err);
    return r < 0 ? r : console_run(call, &console, err);
}

static void done(struct api_call *call)
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
        .take = take,
        .check = check,
        .run = run_shell,
        .done = done,
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
        .take = take,
        .check = check,
        .run = run_attach,
        .done = done,
    };

    return api_verb_run(&verb, argc, argv);
}
