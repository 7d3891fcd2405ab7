#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/command_call.h"
#include "cli/detach_keys.h"
#include "cli/interrupt.h"
#include "cli/lookup.h"
#include "cli/setting_options.h"
#include "cli/workspace.h"
#include "cli/workspace_command.h"

/* What goes with a request has to fit into it. */
#define INPUT_BYTES_MAX ((size_t) 2 << 20)

static const char help[] =
    "usage: agentfense exec [options] SANDBOX [--] COMMAND [ARGUMENT...]\n\n"
    "Runs a command in a sandbox that was started. Its output and exit code are passed on; what it changes goes into the\n"
    "codebase when it ends, unless the sandbox was made with --no-sync. Words arrive as they are typed here; a single word\n"
    "is a line for the shell: agentfense exec SANDBOX -- 'make 2>&1 | tail'.\n\n"
    "Its standard input is empty. With -i it is ours, passed on as it comes. With -it it has a terminal as well: every key\n"
    "goes to it, Ctrl-C too. Ctrl-P Ctrl-Q leaves it running, and 'agentfense attach' comes back.\n\n"
    "  -e, --env NAME[=VALUE] set a variable for the command; without a value, ours\n"
    "  --env-file FILE        set the variables of a file of NAME=VALUE lines\n"
    "  -w, --workdir DIR      where the command starts; relative to the workspace\n"
    "  -t, --timeout SPAN     kill it after this time (30s, 5m); exit code 124. Without: the server's default (30s)\n"
    "  -i, --interactive      pass on standard input\n"
    "  -it, --tty             pass on the terminal; it has no --timeout\n"
    "  --detach-keys KEYS     what leaves it running: ctrl-p,ctrl-q unless told; '' for nothing\n"
    "  -n, --no-stdin         do not, as without either\n"
    "In a workspace also:\n"
    "  -d, --detach           start it in the background, and print its id; 'agentfense logs' shows what it prints\n"
    "  --name NAME            what to call it in the background, in 'agentfense processes'\n"
    "  --memory MB, --cpu-time SEC, --max-procs N, --max-files N\n"
    "                         limits of it\n"
    "  --network              refuse to run where there is none\n"
    "  --profile NAME         the isolation profile that it counts on\n" API_LAST_HELP API_OPTIONS_HELP
    "\nExit codes: the command's own; 128+N when signal N ended it, 124 after a timeout, 137 when it ran out of memory,\n"
    "125 when we failed, 2 for a bad call.\n";

enum {
    OPT_ENV_FILE = 1,
    OPT_TTY,
    OPT_DETACH_KEYS,
    OPT_NAME,
    OPT_MAX_MEMORY,
    OPT_CPU_TIME,
    OPT_MAX_PROCS,
    OPT_MAX_FILES,
    OPT_NETWORK,
    OPT_PROFILE
};

static const struct option options[] = {
    { "env", required_argument, NULL, 'e' },
    { "env-file", required_argument, NULL, OPT_ENV_FILE },
    { "workdir", required_argument, NULL, 'w' },
    { "timeout", required_argument, NULL, 't' },
    { "interactive", no_argument, NULL, 'i' },
    { "tty", no_argument, NULL, OPT_TTY },
    { "detach-keys", required_argument, NULL, OPT_DETACH_KEYS },
    { "no-stdin", no_argument, NULL, 'n' },
    { "detach", no_argument, NULL, 'd' },
    { "name", required_argument, NULL, OPT_NAME },
    { "memory", required_argument, NULL, OPT_MAX_MEMORY },
    { "cpu-time", required_argument, NULL, OPT_CPU_TIME },
    { "max-procs", required_argument, NULL, OPT_MAX_PROCS },
    { "max-files", required_argument, NULL, OPT_MAX_FILES },
    { "network", no_argument, NULL, OPT_NETWORK },
    { "profile", required_argument, NULL, OPT_PROFILE },
    API_LONG_OPTIONS,
};

struct exec_options {
    struct entry_list env;
    const char *workdir;
    Google__Protobuf__Duration timeout;
    bool has_timeout, has_input, no_input, has_tty, is_detached;
    const char *name, *detach_keys;
    json_t *limits; /* owned: those of workspaces; NULL: none */
};

/* As the API names them. */
static int take_limit(struct exec_options *o, int option, const char *argument, struct err *err)
{
    const char *key = option == OPT_MAX_MEMORY  ? "memoryLimitMB"
                      : option == OPT_CPU_TIME  ? "cpuTimeSec"
                      : option == OPT_MAX_PROCS ? "maxProcesses"
                                                : "maxOpenFiles";
    int64_t n = 0;
    int r = 0;

    if (!o->limits)
        o->limits = json_object();
    if (option == OPT_NETWORK || option == OPT_PROFILE)
        return json_object_set_new(o->limits, option == OPT_NETWORK ? "allowNetwork" : "isolationLevel",
                                   option == OPT_NETWORK ? json_true() : json_string(argument));
    r = parse_number("the limit", argument, 0, 1 << 30, &n, err);
    if (r < 0)
        return r;
    json_object_set_new(o->limits, key, json_integer(n));
    return 0;
}

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct exec_options *o = call->own;

    switch (option) {
    case 'e':
        return entry_list_add_env(&o->env, argument, err);
    case OPT_ENV_FILE:
        return entry_list_add_env_file(&o->env, argument, err);
    case 'w':
        o->workdir = argument;
        return 0;
    case 't':
        o->has_timeout = true;
        return parse_span("timeout", argument, &o->timeout, err);
    case 'i':
        o->has_input = true;
        return 0;
    case 'n':
        o->no_input = true;
        return 0;
    case 'd':
        o->is_detached = true;
        return 0;
    case OPT_NAME:
        o->name = argument;
        return 0;
    case OPT_TTY:
        o->has_tty = true;
        return 0;
    case OPT_DETACH_KEYS:
        o->detach_keys = argument;
        return 0;
    default:
        return take_limit(o, option, argument, err);
    }
}

static int check(struct api_call *call, struct err *err)
{
    const struct exec_options *o = call->own;

    struct detach_keys keys;

    if (!call->command[0])
        return err_invalid(err, "no command: agentfense exec SANDBOX [--] COMMAND; 'agentfense shell SANDBOX' has a shell");
    if ((o->has_input || o->has_tty) && o->no_input)
        return err_invalid(err, "-i and -n contradict each other");
    if (o->has_tty && (o->is_detached || call->options.is_json))
        return err_invalid(err, "a terminal (-it) is for people: it goes with neither --detach nor --json");
    if (o->has_tty && o->has_timeout)
        return err_invalid(err, "a terminal (-it) has no --timeout");
    return detach_keys_parse(&keys, o->detach_keys ? o->detach_keys : "", err);
}

static int read_all(struct buf *out)
{
    char piece[65536];
    ssize_t n;

    while ((n = interrupt_read(STDIN_FILENO, piece, sizeof(piece))) > 0) {
        buf_add(out, piece, (size_t) n);
        if (out->len > INPUT_BYTES_MAX)
            return -EFBIG;
    }
    return (int) n;
}

static int read_input(const struct exec_options *o, struct buf *out, struct err *err)
{
    int r;

    /* Only when told to: whoever starts us may have left us a pipe that never ends, or a list that the next command is to read. */
    if (!o->has_input)
        return 0;
    r = read_all(out);
    if (r == -EFBIG)
        return err_set(err, ERR_RESOURCE_EXHAUSTED, r,
                       "standard input is larger than 2 MB, which is the most that goes with --json or --detach");
    if (r == -ECANCELED)
        return err_set(err, ERR_CANCELLED, r, "interrupted");
    return r < 0 ? err_errno(err, r, "reading standard input") : 0;
}

static int run_here(struct api_call *call, const char *id, const struct buf *input, struct err *err)
{
    const struct exec_options *o = call->own;
    struct workspace_command command = {
        .words = call->command,
        .workdir = o->workdir,
        .timeout_ns = o->has_timeout ? o->timeout.seconds * 1000000000 + o->timeout.nanos : 0,
        .input = input,
        .is_detached = o->is_detached,
        .env = &o->env,
        .name = o->name,
        .more = o->limits,
        .is_tty = o->has_tty,
        .takes_stdin = o->has_input || o->has_tty,
        .detach_keys = o->detach_keys,
    };

    return command_in_workspace(call, id, &command, err);
}

static int run(struct api_call *call, struct err *err)
{
    static char empty[] = "";
    struct exec_options *o = call->own;
    Sandbox__V1__ExecRequest request = SANDBOX__V1__EXEC_REQUEST__INIT;
    autodone(target) struct target target = { .id = NULL };
    autofree char *line = command_line(call->command);
    autodone(buf) struct buf input = BUF_EMPTY;
    int r = target_find(call->client, call->words[0], &target, err);

    if (r < 0)
        return r;
    if (target.id && o->is_detached)
        return err_invalid(err, "--detach is for workspaces; a session has background jobs");
    /* Input and terminals go by a conversation; what has neither, or is to be answered whole, by a request. */
    if (!call->options.is_json && !o->is_detached && (!target.id || o->has_input || o->has_tty))
        return lookup_tell_stopped(call->words[0], run_here(call, target.id ? target.id : target.workspace, NULL, err), err);
    r = read_input(o, &input, err);
    if (r < 0)
        return r;
    if (!target.id)
        return lookup_tell_stopped(call->words[0], run_here(call, target.workspace, &input, err), err);
    request.sandbox_id = target.id;
    request.command = line;
    request.workdir = o->workdir ? (char *) o->workdir : empty;
    request.n_env = o->env.count;
    request.env = o->env.items;
    request.timeout = o->has_timeout ? &o->timeout : NULL;
    request.stdin_data = (ProtobufCBinaryData){ .data = (uint8_t *) input.data, .len = input.len };
    r = command_call(call, "Exec", "ExecStream", &request.base, request.timeout, err);
    return lookup_tell_stopped(call->words[0], r, err);
}

static void done(struct api_call *call)
{
    struct exec_options *o = call->own;

    entry_list_done(&o->env);
    json_decref(o->limits);
}

/* "-it" is what hands know from elsewhere, but -t takes a time: the two letters together are a word of their own. */
static void translate_it(int argc, char **argv)
{
    static char tty[] = "--tty";

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-it") == 0 || strcmp(argv[i], "-ti") == 0)
            argv[i] = tty;
    }
}

int cmd_exec(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "exec",
        .last = API_LAST_SANDBOX,
        .help = help,
        .letters = "e:w:t:ind",
        .options = options,
        .words_min = 1,
        .words_max = 1,
        .takes_command = true,
        .own_size = sizeof(struct exec_options),
        .take = take,
        .check = check,
        .run = run,
        .done = done,
    };

    translate_it(argc, argv);
    return api_verb_run(&verb, argc, argv);
}
