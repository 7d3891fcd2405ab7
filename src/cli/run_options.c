#include "cli/run_options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/cpus_text.h"
#include "cli/env_text.h"
#include "runtime/runtime_spec.h"
#include "sandbox/engine_path.h"
#include "wire/runtime_type.h"

const char run_options_help[] =
    "usage: agentfense run [options] [DIR] -- COMMAND [ARGUMENT...]\n\n"
    "Runs COMMAND in a sandbox over DIR (default: here). It sees of DIR what the rules show; what it writes is kept aside, "
    "and\n"
    "DIR is never touched. Its output and exit code are passed on. Afterwards 'agentfense diff', 'approve' and 'rm' "
    "show,\n"
    "keep or drop what it changed.\n\n" POLICY_OPTIONS_HELP
    "                         without any of these: --preset " DEFAULT_PRESET "\n"
    "  -e, --env NAME[=VALUE] set a variable for the command; without a value, ours\n"
    "  --env-file FILE        set the variables of a file of NAME=VALUE lines\n"
    "  -w, --workdir DIR      where the command starts; relative to /workspace\n"
    "  -t, --timeout TIME     kill it after this time (30s, 5m); exit code 124\n"
    "  -m, --memory SIZE      most memory of the sandbox (512M, 2G)\n"
    "  --cpus N               most processors it may use (0.5, 2)\n"
    "  --cpu-shares N         its weight against others; 1024 is the default of a process\n"
    "  --pids N               most processes at once (default " DEFAULT_TEXT(
        DEFAULT_PIDS) ")\n"
                      "  --disk SIZE            most bytes of changes (default " DEFAULT_TEXT(
                          DEFAULT_DISK_GIB) "G, or half of the file system)\n"
                                            "  --files N              most files and directories among the changes "
                                            "(default " DEFAULT_TEXT(
                                                DEFAULT_FILES) ", less with --disk or -m)\n"
                                                               "  --mount SRC:DST[:ro]   show a file or directory of the host "
                                                               "too; may be given again\n"
                                                               "  --net none|host        network: none (default), or that of "
                                                               "the host; in a container also bridge\n"
                                                               "  --runtime bwrap|docker confined by bubblewrap (default), or "
                                                               "in a container of the Docker engine\n"
                                                               "  --image IMAGE          of the container "
                                                               "(default " ENGINE_IMAGE_USUAL "); means --runtime docker\n"
                                                               "  --driver D             what holds changes back: fence "
                                                               "(default), or without checks, for rules that forbid nothing,\n"
                                                               "                         overlayfs or copy\n"
                                                               "  -i, --interactive      pass on standard input (always so, "
                                                               "unless --no-stdin)\n"
                                                               "  -it, --tty             with a terminal; without a command, a "
                                                               "shell\n"
                                                               "  -n, --no-stdin         the command's standard input is "
                                                               "empty\n"
                                                               "  --name NAME            name of the new sandbox\n"
                                                               "  --in NAME              run in the sandbox NAME once more, "
                                                               "with its changes and rules; network, mounts (all of them) "
                                                               "and\n"
                                                               "                         limits that are given replace those "
                                                               "it had\n"
                                                               "  --last                 the same in the sandbox that was made "
                                                               "last\n"
                                                               "  --rm                   drop the changes afterwards\n"
                                                               "  -v, --verbose          print what the rules refuse\n"
                                                               "  -q, --quiet            print no messages of our own\n"
                                                               "  --json                 say what changed as JSON, on standard "
                                                               "error\n"
                                                               "  -h, --help             this text\n\n"
                                                               "Exit codes: the command's own; 128+N when signal N ended it, "
                                                               "124 after a timeout, 126 and 127 when it cannot be run,\n"
                                                               "137 when it ran out of memory, 125 when the sandbox failed, 2 "
                                                               "for a bad call.\n";

enum {
    OPT_ENV_FILE = 1,
    OPT_CPUS,
    OPT_CPU_SHARES,
    OPT_PIDS,
    OPT_DISK,
    OPT_FILES,
    OPT_MOUNT,
    OPT_NET,
    OPT_DRIVER,
    OPT_RM,
    OPT_NAME,
    OPT_IN,
    OPT_LAST,
    OPT_JSON,
    OPT_TTY,
    OPT_RUNTIME,
    OPT_IMAGE,
};

static const struct option long_options[] = {
    { "env", required_argument, NULL, 'e' },
    { "env-file", required_argument, NULL, OPT_ENV_FILE },
    { "workdir", required_argument, NULL, 'w' },
    { "timeout", required_argument, NULL, 't' },
    { "memory", required_argument, NULL, 'm' },
    { "cpus", required_argument, NULL, OPT_CPUS },
    { "cpu-shares", required_argument, NULL, OPT_CPU_SHARES },
    { "pids", required_argument, NULL, OPT_PIDS },
    { "disk", required_argument, NULL, OPT_DISK },
    { "files", required_argument, NULL, OPT_FILES },
    { "mount", required_argument, NULL, OPT_MOUNT },
    { "net", required_argument, NULL, OPT_NET },
    { "runtime", required_argument, NULL, OPT_RUNTIME },
    { "image", required_argument, NULL, OPT_IMAGE },
    { "driver", required_argument, NULL, OPT_DRIVER },
    { "interactive", no_argument, NULL, 'i' },
    { "tty", no_argument, NULL, OPT_TTY },
    { "no-stdin", no_argument, NULL, 'n' },
    { "name", required_argument, NULL, OPT_NAME },
    { "in", required_argument, NULL, OPT_IN },
    { "last", no_argument, NULL, OPT_LAST },
    { "rm", no_argument, NULL, OPT_RM },
    { "verbose", no_argument, NULL, 'v' },
    { "quiet", no_argument, NULL, 'q' },
    { "json", no_argument, NULL, OPT_JSON },
    { "help", no_argument, NULL, 'h' },
    POLICY_LONG_OPTIONS,
    { NULL, 0, NULL, 0 },
};

static void add_env(const char *name, size_t name_len, const char *value, void *cookie)
{
    autofree char *assignment = xprintf("%.*s=%s", (int) name_len, name, value);

    sandbox_spec_add_env(cookie, assignment);
}

static int parse_count(const char *name, const char *text, uint32_t least, uint32_t most, uint32_t *ret, struct err *err)
{
    char *end;

    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (errno || end == text || *end || !isdigit((unsigned char) *text) || n < least || n > most)
        return err_invalid(err, "--%s '%s' is not a number from %u to %u", name, text, least, most);
    *ret = (uint32_t) n;
    return 0;
}

/* Refuses 0, which would mean no limit. */
static int parse_bytes(const char *name, const char *text, uint64_t *ret, struct err *err)
{
    int r = size_parse(text, ret, err);

    if (r < 0)
        return err_wrap(err, r, "--%s", name);
    return *ret == 0 ? err_invalid(err, "--%s '%s' leaves nothing", name, text) : 0;
}

static int parse_mount(struct sandbox_spec *spec, const char *text, struct err *err)
{
    autofree char *copy = xdup(text);
    char *dst = strchr(copy, ':');
    char *mode = dst ? strchr(dst + 1, ':') : NULL;

    if (!dst)
        return err_invalid(err, "--mount '%s' is not of the form SRC:DST[:ro]", text);
    *dst++ = '\0';
    if (mode)
        *mode++ = '\0';
    if (mode && strcmp(mode, "ro") != 0 && strcmp(mode, "rw") != 0)
        return err_invalid(err, "--mount '%s': '%s' is neither ro nor rw", text, mode);
    if (*dst != '/')
        return err_invalid(err, "--mount '%s': '%s' is not an absolute path in the sandbox; use a place like '/mnt/...'", text,
                           dst);
    autofree char *src = realpath(copy, NULL);
    if (!src)
        return err_errno(err, -errno, "--mount '%s': '%s'", text, copy);
    sandbox_spec_add_mount(spec, src, dst, mode && strcmp(mode, "ro") == 0);
    return 0;
}

static int parse_net(const char *text, enum sandbox_net *ret, struct err *err)
{
    static const char *const names[] = {
        [SANDBOX_NET_NONE] = "none", [SANDBOX_NET_HOST] = "host", [SANDBOX_NET_BRIDGE] = "bridge"
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum sandbox_net) i;
            return 0;
        }
    }
    return err_invalid(err, "--net '%s' is none of none, host and bridge", text);
}

static int parse_runtime(struct sandbox_spec *spec, const char *text, struct err *err)
{
    const struct runtime_type *type;
    int r = runtime_type_parse(text, &type, err);

    if (r < 0)
        return err_wrap(err, r, "--runtime");
    free(spec->runtime);
    spec->runtime = xdup(type->name);
    return 0;
}

static int parse_image(struct sandbox_spec *spec, const char *text, struct err *err)
{
    if (!sandbox_image_is_valid(text))
        return err_invalid(err, "--image '%s' is not the name of an image", text);
    free(spec->image);
    spec->image = xdup(text);
    return 0;
}

/* Applies the default runtime and refuses options that need the other one. */
static int settle_runtime(struct sandbox_spec *spec, struct err *err)
{
    bool is_container;

    if (!spec->runtime)
        spec->runtime = xdup(runtime_type_default(spec->image)->name);
    is_container = sandbox_spec_is_container(spec);
    if (!is_container && spec->image)
        return err_invalid(err, "--image is for containers: --runtime docker");
    if (!is_container && spec->net == SANDBOX_NET_BRIDGE)
        return err_invalid(err, "--net bridge is for containers: --runtime docker");
    if (!is_container)
        return 0;
    if (!spec->image)
        spec->image = xdup(ENGINE_IMAGE_USUAL);
    return engine_path_parse("", &spec->engine, err);
}

static int parse_driver(const char *text, char **ret, struct err *err)
{
    if (strcmp(text, "fence") != 0 && strcmp(text, "overlayfs") != 0 && strcmp(text, "copy") != 0)
        return err_invalid(err, "--driver '%s' is none of fence, overlayfs and copy", text);
    free(*ret);
    *ret = xdup(text);
    return 0;
}

static int parse_timeout(const char *text, uint32_t *ret_ms, struct err *err)
{
    int64_t ns;
    int r = clock_parse_duration(text, &ns, err);

    if (r < 0)
        return err_wrap(err, r, "--timeout");
    if (ns < CLOCK_NS_PER_MS || ns / CLOCK_NS_PER_MS > UINT32_MAX)
        return err_invalid(err, "--timeout '%s' is not between 1ms and 49 days", text);
    *ret_ms = (uint32_t) (ns / CLOCK_NS_PER_MS);
    return 0;
}

/* Takes an option that existing sandboxes accept too. Returns 1 for other options. */
static int take_change(struct run_options *o, int option, const char *arg, struct err *err)
{
    struct sandbox_spec *spec = o->spec;

    switch (option) {
    case 'm':
        return parse_bytes("memory", arg, &spec->memory_bytes, err);
    case OPT_CPUS:
        return cpus_text_parse(arg, &spec->cpu_quota_us, err);
    case OPT_CPU_SHARES:
        return parse_count("cpu-shares", arg, 2, 262144, &spec->cpu_shares, err);
    case OPT_PIDS:
        return parse_count("pids", arg, 1, 4194304, &spec->pids, err);
    case OPT_DISK:
        return parse_bytes("disk", arg, &spec->quota_bytes, err);
    case OPT_FILES: {
        uint32_t files = 0;
        int r = parse_count("files", arg, 1, UINT32_MAX, &files, err);
        spec->quota_inodes = files;
        return r;
    }
    case OPT_MOUNT:
        return parse_mount(spec, arg, err);
    case OPT_NET:
        o->sets_net = true;
        return parse_net(arg, &spec->net, err);
    default:
        return 1;
    }
}

/* Takes an option that only a new sandbox accepts. Returns 1 for other options. */
static int take_shape(struct sandbox_spec *spec, int option, const char *arg, struct err *err)
{
    switch (option) {
    case OPT_RUNTIME:
        return parse_runtime(spec, arg, err);
    case OPT_IMAGE:
        return parse_image(spec, arg, err);
    case OPT_DRIVER:
        return parse_driver(arg, &spec->driver, err);
    case OPT_NAME:
        if (!sandbox_name_is_valid(arg))
            return err_invalid(err, "--name '%s': letters, digits, '.', '_' and '-', at most 63, not beginning with '.' or '-'",
                               arg);
        if (sandbox_id_is_valid(arg))
            return err_invalid(err, "--name '%s' has the form of an id; choose another name", arg);
        free(spec->name);
        spec->name = xdup(arg);
        return 0;
    default:
        return 1;
    }
}

static int take_option(struct run_options *o, int option, const char *arg, struct err *err)
{
    int r = take_change(o, option, arg, err);

    if (r <= 0) {
        o->changes_sandbox = true;
        return r;
    }
    r = take_shape(o->spec, option, arg, err);
    if (r <= 0 || policy_options_take(&o->policy, option, arg)) {
        o->shapes_sandbox = true;
        return r < 0 ? r : 0;
    }
    switch (option) {
    case 'e':
        return env_text_take(arg, add_env, o->spec, err);
    case OPT_ENV_FILE:
        return env_text_take_file(arg, add_env, o->spec, err);
    case 'w':
        o->workdir = arg;
        return 0;
    case 't':
        return parse_timeout(arg, &o->timeout_ms, err);
    case 'i':
        o->is_interactive = true;
        return 0;
    case OPT_TTY:
        o->has_tty = true;
        return 0;
    case 'n':
        o->no_stdin = true;
        return 0;
    case OPT_IN:
        o->in = arg;
        return 0;
    case OPT_LAST:
        o->in_last = true;
        return 0;
    case OPT_RM:
        o->removes = true;
        return 0;
    case 'v':
        o->is_verbose = true;
        return 0;
    case 'q':
        o->is_quiet = true;
        return 0;
    case OPT_JSON:
        o->is_json = true;
        return 0;
    case 'h':
        o->wants_help = true;
        return 0;
    default:
        return err_invalid(err, "see 'agentfense run --help'");
    }
}

/* People know "-it" from other tools, but our -t takes a time. So "-it" is an option of its own. */
static void translate_it(int argc, char **argv)
{
    static char tty[] = "--tty";

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-it") == 0 || strcmp(argv[i], "-ti") == 0)
            argv[i] = tty;
    }
}

static int find_command(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            return i;
    }
    return argc;
}

bool run_options_go_on(const struct run_options *o)
{
    return o->in || o->in_last;
}

static int check(const struct run_options *o, struct err *err)
{
    if (!o->command[0] && !o->has_tty)
        return err_invalid(err, "no command; it comes after '--': agentfense run [DIR] -- COMMAND");
    if (o->in && o->in_last)
        return err_invalid(err, "--in and --last name two sandboxes");
    if (run_options_go_on(o) && (o->dir || o->shapes_sandbox))
        return err_invalid(err,
                           "%s takes the sandbox as it is: no directory, rules, runtime, image, driver or name with it; what "
                           "can change are network, mounts and limits",
                           o->in ? "--in" : "--last");
    if (run_options_go_on(o) && o->removes)
        return err_invalid(err, "--rm would drop what the sandbox held before; use 'agentfense rm'");
    if (o->has_tty && o->no_stdin)
        return err_invalid(err, "a terminal without standard input is of no use");
    return 0;
}

int run_options_parse(struct run_options *options, int argc, char **argv, struct err *err)
{
    int split = find_command(argc, argv), option, r;

    *options = (struct run_options){ .spec = xnew(struct sandbox_spec) };
    options->spec->hostname = xdup("");
    options->command = argv + (split < argc ? split + 1 : argc);
    translate_it(split, argv);
    optind = 0;
    while ((option = getopt_long(split, argv, "e:w:t:m:invqh", long_options, NULL)) != -1) {
        r = take_option(options, option, optarg, err);
        if (r < 0 || options->wants_help)
            return r;
    }
    if (optind + 1 < split)
        return err_invalid(err, "'%s' is one word too many; the command comes after '--'", argv[optind + 1]);
    options->dir = optind < split ? argv[optind] : NULL;
    r = check(options, err);
    return r < 0 || run_options_go_on(options) ? r : settle_runtime(options->spec, err);
}

void run_options_done(struct run_options *options)
{
    policy_options_done(&options->policy);
    sandbox_spec_free(options->spec);
}
