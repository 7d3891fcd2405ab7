#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/command_call.h"
#include "cli/interrupt.h"
#include "cli/lookup.h"
#include "cli/setting_options.h"

/* What goes with a request has to fit into it. */
#define INPUT_BYTES_MAX ((size_t) 2 << 20)

static const char help[] =
    "usage: agentfense exec [options] SANDBOX -- COMMAND [ARGUMENT...]\n\n"
    "Runs a command in a sandbox that was started. Its output and exit code are passed on; what it changes goes into the\n"
    "codebase when it ends, unless the sandbox was made with --no-sync. Words arrive as they are typed here; a single word\n"
    "is a line for the shell: agentfense exec SANDBOX -- 'make 2>&1 | tail'.\n\n"
    "Its standard input is empty. With -i it is ours, read to its end before the command starts, up to 2 MB of it.\n\n"
    "  -e, --env NAME[=VALUE] set a variable for the command; without a value, ours\n"
    "  --env-file FILE        set the variables of a file of NAME=VALUE lines\n"
    "  -w, --workdir DIR      where the command starts; relative to the workspace\n"
    "  -t, --timeout SPAN     kill it after this time (30s, 5m); exit code 124. Without: the server's default (30s)\n"
    "  -i, --interactive      pass on standard input\n"
    "  -n, --no-stdin         do not, as without either\n" API_OPTIONS_HELP
    "\nExit codes: the command's own; 128+N when signal N ended it, 124 after a timeout, 137 when it ran out of memory,\n"
    "125 when we failed, 2 for a bad call.\n";

enum { OPT_ENV_FILE = 1, OPT_TTY };

static const struct option options[] = {
    { "env", required_argument, NULL, 'e' },     { "env-file", required_argument, NULL, OPT_ENV_FILE },
    { "workdir", required_argument, NULL, 'w' }, { "timeout", required_argument, NULL, 't' },
    { "interactive", no_argument, NULL, 'i' },   { "tty", no_argument, NULL, OPT_TTY },
    { "no-stdin", no_argument, NULL, 'n' },      API_LONG_OPTIONS,
};

struct exec_options {
    struct entry_list env;
    const char *workdir;
    Google__Protobuf__Duration timeout;
    bool has_timeout, has_input, no_input, has_tty;
};

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
    default:
        o->has_tty = true;
        return 0;
    }
}

static int check(struct api_call *call, struct err *err)
{
    const struct exec_options *o = call->own;

    if (o->has_tty)
        return err_set(
            err, ERR_UNIMPLEMENTED, -ENOTTY,
            "a terminal (-it) is not passed through the API yet; 'agentfense run -it' has one in a sandbox of its own");
    if (!call->command[0])
        return err_invalid(err, "no command; it comes after '--': agentfense exec SANDBOX -- COMMAND");
    if (o->has_input && o->no_input)
        return err_invalid(err, "-i and -n contradict each other");
    return 0;
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
                       "standard input is larger than 2 MB; put it into the codebase with 'agentfense cp'");
    if (r == -ECANCELED)
        return err_set(err, ERR_CANCELLED, r, "interrupted");
    return r < 0 ? err_errno(err, r, "reading standard input") : 0;
}

static int run(struct api_call *call, struct err *err)
{
    static char empty[] = "";
    struct exec_options *o = call->own;
    Sandbox__V1__ExecRequest request = SANDBOX__V1__EXEC_REQUEST__INIT;
    autofree char *sandbox = NULL;
    autofree char *line = command_line(call->command);
    autodone(buf) struct buf input = BUF_EMPTY;
    int r = lookup_sandbox(call->client, call->words[0], &sandbox, err);

    if (r == 0)
        r = read_input(o, &input, err);
    if (r < 0)
        return r;
    request.sandbox_id = sandbox;
    request.command = line;
    request.workdir = o->workdir ? (char *) o->workdir : empty;
    request.n_env = o->env.count;
    request.env = o->env.items;
    request.timeout = o->has_timeout ? &o->timeout : NULL;
    request.stdin_data = (ProtobufCBinaryData){ .data = (uint8_t *) input.data, .len = input.len };
    return command_call(call, "Exec", "ExecStream", &request.base, err);
}

static void done(struct api_call *call)
{
    entry_list_done(&((struct exec_options *) call->own)->env);
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
        .help = help,
        .letters = "e:w:t:in",
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
