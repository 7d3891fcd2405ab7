#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/defaults.h"
#include "base/mem.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/command_call.h"
#include "cli/console.h"
#include "cli/detach_keys.h"
#include "cli/interrupt.h"
#include "cli/lookup.h"
#include "cli/process_verbs.h"
#include "cli/setting_options.h"
#include <sandbox/v1/process.pb-c.h>

/* The input is a field of the request, whose size is limited. */
#define INPUT_BYTES_MAX ((size_t) 2 << 20)

#define COMMAND_OPTIONS_HELP                                                                                                   \
    "  -e, --env NAME[=VALUE] set a variable for the command; without a value, ours\n"                                         \
    "  --env-file FILE        set the variables of a file of NAME=VALUE lines\n"                                               \
    "  -w, --workdir DIR      where the command starts; relative to /workspace\n"
#define LIMIT_OPTIONS_HELP                                                                                                     \
    "  --name NAME            what to call it in 'agentfense process list'\n"                                                  \
    "  --memory MB, --cpu-time SEC, --max-procs N, --max-files N\n"                                                            \
    "                         limits of this command alone\n"

static const char help[] =
    "usage: agentfense exec [options] SANDBOX [--] COMMAND [ARGUMENT...]\n\n"
    "Runs a command in a running sandbox, and passes on its output and exit code. A synced sandbox syncs its changes into the\n"
    "codebase when it ends. Words arrive as they are typed here; a single word is a line for the shell:\n"
    "agentfense exec SANDBOX -- 'make 2>&1 | tail'.\n\n"
    "The command's standard input is empty. -i passes ours on as it comes. With -it the command has a terminal as well: every\n"
    "key goes to it, Ctrl-C too. Ctrl-P Ctrl-Q leaves it running, and 'agentfense attach' comes back.\n\n" COMMAND_OPTIONS_HELP
    "  -t, --timeout SPAN     kill it after this time (30s, 5m); exit code 124. Without: the server's default "
    "(" DEFAULT_EXEC_TIMEOUT ")\n"
    "  -i, --interactive      pass on standard input\n"
    "  -it, --tty             pass on the terminal; it has no --timeout\n"
    "  --detach-keys KEYS     what leaves it running (default: ctrl-p,ctrl-q); '' for nothing\n"
    "  -n, --no-stdin         do not, as without either\n"
    "  -d, --detach           start it in the background, as 'agentfense process start', and print its id\n" LIMIT_OPTIONS_HELP
    "  --network              refuse if the sandbox has no network\n"
    "  --profile NAME         refuse if the sandbox has not this isolation profile\n" API_LAST_HELP API_OPTIONS_HELP
    "\nExit codes: the command's own; 128+N when signal N ended it, 124 after a timeout, 137 when it ran out of memory,\n"
    "125 when we failed, 2 for a bad call.\n";

static const char start_help[] =
    "usage: agentfense process start [options] SANDBOX [--] COMMAND [ARGUMENT...]\n\n"
    "Starts a command in the background of a running sandbox, and prints its id. Its output goes to a log: 'agentfense "
    "process\n"
    "logs'. It has no standard input and no time limit.\n\n" COMMAND_OPTIONS_HELP LIMIT_OPTIONS_HELP API_LAST_HELP
        API_OPTIONS_HELP;

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
    const char *name, *detach_keys, *profile;
    bool wants_network, has_limits;
    Sandbox__V1__ProcessLimits limits;
    Google__Protobuf__Duration cpu_time;
};

static int exec_take_limit(struct exec_options *o, int option, const char *argument, struct err *err)
{
    int64_t n = 0;
    int r = parse_number("the limit", argument, 0, 1 << 30, &n, err);

    if (r < 0)
        return r;
    if (!o->has_limits)
        sandbox__v1__process_limits__init(&o->limits);
    o->has_limits = true;
    if (option == OPT_MAX_MEMORY) {
        o->limits.memory_bytes = n << 20;
    } else if (option == OPT_CPU_TIME) {
        google__protobuf__duration__init(&o->cpu_time);
        o->cpu_time.seconds = n;
        o->limits.cpu_time = n > 0 ? &o->cpu_time : NULL;
    } else if (option == OPT_MAX_PROCS) {
        o->limits.processes = n;
    } else {
        o->limits.open_files = n;
    }
    return 0;
}

static int exec_take(struct api_call *call, int option, const char *argument, struct err *err)
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
    case OPT_NETWORK:
        o->wants_network = true;
        return 0;
    case OPT_PROFILE:
        o->profile = argument;
        return 0;
    default:
        return exec_take_limit(o, option, argument, err);
    }
}

static int exec_check(struct api_call *call, struct err *err)
{
    const struct exec_options *o = call->own;
    struct detach_keys keys;

    if (!call->command[0])
        return err_invalid(err, "no command: agentfense %s SANDBOX [--] COMMAND; 'agentfense shell SANDBOX' has a shell",
                           call->verb->name);
    if ((o->has_input || o->has_tty) && o->no_input)
        return err_invalid(err, "-i and -n contradict each other");
    if (o->has_tty && (o->is_detached || call->options.is_json))
        return err_invalid(err, "a terminal (-it) is for people: it goes with neither --detach nor --json");
    if (o->has_tty && o->has_timeout)
        return err_invalid(err, "a terminal (-it) has no --timeout");
    if (o->is_detached && (o->has_timeout || o->has_input))
        return err_invalid(err, "a command in the background has neither a --timeout nor standard input (-i)");
    if (o->has_limits && call->options.is_json && !o->is_detached)
        return err_invalid(err, "limits of a command go with its output as it comes, or with --detach, and not with --json");
    return detach_keys_parse(&keys, o->detach_keys ? o->detach_keys : "", err);
}

static int exec_read_all(struct buf *out)
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

static int exec_read_input(const struct exec_options *o, struct buf *out, struct err *err)
{
    int r;

    /* Without -i this does not read standard input: it may be a pipe that never ends, or the list that a shell loop reads. */
    if (!o->has_input)
        return 0;
    r = exec_read_all(out);
    if (r == -EFBIG)
        return err_set(err, ERR_RESOURCE_EXHAUSTED, r,
                       "standard input is larger than 2 MB, which is the most that goes with --json");
    if (r == -ECANCELED)
        return err_set(err, ERR_CANCELLED, r, "interrupted");
    return r < 0 ? err_errno(err, r, "reading standard input") : 0;
}

/* A sandbox gets its network and profile only when it starts. If they differ from the ones requested here, the command must not run. */
static int exec_check_sandbox(struct api_call *call, const char *id, struct err *err)
{
    const struct exec_options *o = call->own;
    automessage answer = NULL;
    int r = o->wants_network || o->profile ? lookup_get_sandbox(call->client, id, &answer, err) : 0;
    const Sandbox__V1__Sandbox *sandbox = (void *) answer;

    if (r < 0 || !sandbox)
        return r;
    if (o->wants_network && (!*sandbox->network || strcmp(sandbox->network, "none") == 0))
        return err_set(err, ERR_FAILED_PRECONDITION, -ENETDOWN, "sandbox '%s' has no network, and --network counts on one",
                       call->words[0]);
    if (o->profile && strcmp(o->profile, sandbox->profile) != 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EPERM, "sandbox '%s' has not the profile '%s'%s%s", call->words[0],
                       o->profile, *sandbox->profile ? " but " : "", sandbox->profile);
    return 0;
}

static json_t *exec_limits_json(const struct exec_options *o)
{
    json_t *limits = json_object();

    if (o->limits.memory_bytes > 0)
        json_object_set_new(limits, "memoryLimitMB", json_integer(o->limits.memory_bytes >> 20));
    if (o->limits.cpu_time)
        json_object_set_new(limits, "cpuTimeSec", json_integer(o->limits.cpu_time->seconds));
    if (o->limits.processes > 0)
        json_object_set_new(limits, "maxProcesses", json_integer(o->limits.processes));
    if (o->limits.open_files > 0)
        json_object_set_new(limits, "maxOpenFiles", json_integer(o->limits.open_files));
    return limits;
}

/* Runs the command with input, a terminal or limits of its own. */
static int exec_on_console(struct api_call *call, const char *id, struct err *err)
{
    const struct exec_options *o = call->own;
    json_t *limits = o->has_limits ? exec_limits_json(o) : NULL;
    struct console console = {
        .sandbox = id,
        .words = call->command,
        .workdir = o->workdir,
        .timeout_ns = o->has_timeout ? o->timeout.seconds * CLOCK_NS_PER_SEC + o->timeout.nanos : 0,
        .env = &o->env,
        .limits = limits,
        .detach_keys = o->detach_keys,
        .is_tty = o->has_tty,
        .takes_stdin = o->has_input || o->has_tty,
    };
    int r = console_run(call, &console, err);

    json_decref(limits);
    return r;
}

static int exec_in_background(struct api_call *call, const char *id, struct err *err)
{
    static char empty[] = "";
    struct exec_options *o = call->own;
    Sandbox__V1__StartProcessRequest request = SANDBOX__V1__START_PROCESS_REQUEST__INIT;
    Sandbox__V1__ProcessSpec spec = SANDBOX__V1__PROCESS_SPEC__INIT;
    automessage answer = NULL;
    int r;

    if (!call->command[1]) {
        spec.command = call->command[0];
    } else {
        spec.argv = call->command;
        while (call->command[spec.n_argv])
            spec.n_argv++;
    }
    spec.n_env = o->env.count;
    spec.env = entry_list_as(&o->env, Sandbox__V1__ProcessSpec__EnvEntry);
    spec.workdir = o->workdir ? (char *) o->workdir : empty;
    spec.limits = o->has_limits ? &o->limits : NULL;
    spec.name = o->name ? (char *) o->name : empty;
    request.sandbox_id = (char *) id;
    request.spec = &spec;
    r = client_ask(call->client, "StartProcess", &request.base, &answer, err);
    if (r == 0)
        api_print(call, answer, ((const Sandbox__V1__Process *) (void *) answer)->id);
    return r;
}

static int exec_and_wait(struct api_call *call, const char *id, struct err *err)
{
    static char empty[] = "";
    struct exec_options *o = call->own;
    Sandbox__V1__ExecRequest request = SANDBOX__V1__EXEC_REQUEST__INIT;
    autofree char *line = command_line(call->command);
    autodone(buf) struct buf input = BUF_EMPTY;
    int r = exec_read_input(o, &input, err);

    if (r < 0)
        return r;
    request.sandbox_id = (char *) id;
    request.command = line;
    request.workdir = o->workdir ? (char *) o->workdir : empty;
    request.n_env = o->env.count;
    request.env = o->env.items;
    request.timeout = o->has_timeout ? &o->timeout : NULL;
    request.stdin_data = (ProtobufCBinaryData){ .data = (uint8_t *) input.data, .len = input.len };
    return command_call(call, "Exec", "ExecStream", &request.base, request.timeout, err);
}

static int exec_run(struct api_call *call, struct err *err)
{
    const struct exec_options *o = call->own;
    autofree char *id = NULL;
    int r = lookup_sandbox(call->client, call->words[0], &id, err);

    if (r == 0)
        r = exec_check_sandbox(call, id, err);
    if (r < 0)
        return r;
    if (o->is_detached)
        r = exec_in_background(call, id, err);
    else if (!call->options.is_json && (o->has_input || o->has_tty || o->has_limits))
        r = exec_on_console(call, id, err);
    else
        r = exec_and_wait(call, id, err);
    return lookup_explain_stopped(call->words[0], r, err);
}

static int exec_run_start(struct api_call *call, struct err *err)
{
    ((struct exec_options *) call->own)->is_detached = true;
    return exec_run(call, err);
}

static void exec_done(struct api_call *call)
{
    entry_list_done(&((struct exec_options *) call->own)->env);
}

/* People know "-it" from other tools, but our -t takes a time. So "-it" is an option of its own. */
static void exec_translate_it(int argc, char **argv)
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
        .take = exec_take,
        .check = exec_check,
        .run = exec_run,
        .done = exec_done,
    };

    exec_translate_it(argc, argv);
    return api_verb_run(&verb, argc, argv);
}

static const struct option start_options[] = {
    { "env", required_argument, NULL, 'e' },
    { "env-file", required_argument, NULL, OPT_ENV_FILE },
    { "workdir", required_argument, NULL, 'w' },
    { "name", required_argument, NULL, OPT_NAME },
    { "memory", required_argument, NULL, OPT_MAX_MEMORY },
    { "cpu-time", required_argument, NULL, OPT_CPU_TIME },
    { "max-procs", required_argument, NULL, OPT_MAX_PROCS },
    { "max-files", required_argument, NULL, OPT_MAX_FILES },
    API_LONG_OPTIONS,
};

const struct api_verb process_start_verb = {
    .name = "process start",
    .last = API_LAST_SANDBOX,
    .help = start_help,
    .letters = "e:w:",
    .options = start_options,
    .words_min = 1,
    .words_max = 1,
    .takes_command = true,
    .own_size = sizeof(struct exec_options),
    .take = exec_take,
    .check = exec_check,
    .run = exec_run_start,
    .done = exec_done,
};
