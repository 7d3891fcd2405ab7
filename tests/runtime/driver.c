/*
 * Starts one sandbox by the room `runtime`, with a shell where init would be, and shows what the shell prints on its socket.
 *
 *     driver [options] -- SCRIPT
 *     driver --sweep                 ends what starters killed too early have left, and tells how many
 *
 * Standard output is the script's. Standard error tells of the start ("started PID"), of events ("event memory|pids COUNT
 * LIMIT"), of what bwrap said ("output ...") and of the end ("exit CODE"). Fails with 125 and "error CODE text".
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "runtime/bwrap.h"
#include "runtime/bwrap_orphan.h"
#include "runtime/identity.h"
#include "runtime/stage.h"
#include "supervisor/namespace.h"

enum {
    OPT_UID = 1,
    OPT_WORKSPACE,
    OPT_NET,
    OPT_MEMORY,
    OPT_CPU,
    OPT_SHARES,
    OPT_PIDS,
    OPT_MOUNT,
    OPT_ENV,
    OPT_OWN_CGROUP,
    OPT_HOSTNAME,
    OPT_ID,
    OPT_COPY,
    OPT_FREEZE,
    OPT_TIME,
    OPT_NO_DISABLE_USERNS,
    OPT_BWRAP,
    OPT_STAGE,
};

static const struct option long_options[] = {
    { "uid", required_argument, NULL, OPT_UID },
    { "workspace", required_argument, NULL, OPT_WORKSPACE },
    { "net", required_argument, NULL, OPT_NET },
    { "memory", required_argument, NULL, OPT_MEMORY },
    { "cpu", required_argument, NULL, OPT_CPU },
    { "shares", required_argument, NULL, OPT_SHARES },
    { "pids", required_argument, NULL, OPT_PIDS },
    { "mount", required_argument, NULL, OPT_MOUNT },
    { "env", required_argument, NULL, OPT_ENV },
    { "own-cgroup", no_argument, NULL, OPT_OWN_CGROUP },
    { "hostname", required_argument, NULL, OPT_HOSTNAME },
    { "id", required_argument, NULL, OPT_ID },
    { "copy", required_argument, NULL, OPT_COPY },
    { "freeze-ms", required_argument, NULL, OPT_FREEZE },
    { "time", required_argument, NULL, OPT_TIME },
    { "no-disable-userns", no_argument, NULL, OPT_NO_DISABLE_USERNS },
    { "bwrap", required_argument, NULL, OPT_BWRAP },
    { "stage", required_argument, NULL, OPT_STAGE },
    { 0 },
};

struct options {
    struct runtime_spec spec;
    struct runtime_mount mounts[8];
    const char *env[8];
    size_t env_count;
    int freeze_ms, times;
    bool no_disable_userns;
    const char *bwrap;
};

static int fail(const struct err *err)
{
    fprintf(stderr, "error %s %s\n", err_code_name(err->code), err->text);
    return 125;
}

/* SRC:DST[:ro] */
static void add_mount(struct options *options, char *text)
{
    struct runtime_mount *mount = &options->mounts[options->spec.mount_count++];
    char *dst = strchr(text, ':'), *mode = dst ? strchr(dst + 1, ':') : NULL;

    if (dst)
        *dst++ = '\0';
    if (mode)
        *mode++ = '\0';
    *mount = (struct runtime_mount){ .src = text, .dst = dst, .read_only = mode != NULL };
}

static void parse_identity(struct runtime_spec *spec, char *arg)
{
    spec->uid = spec->gid = (uid_t) strtoul(arg, NULL, 10);
}

static bool parse_spec(struct options *options, int opt, char *arg)
{
    struct runtime_spec *spec = &options->spec;

    switch (opt) {
    case OPT_UID:
        parse_identity(spec, arg);
        return true;
    case OPT_WORKSPACE:
        spec->workspace = arg;
        return true;
    case OPT_NET:
        spec->net = strcmp(arg, "host") == 0 ? SANDBOX_NET_HOST : SANDBOX_NET_NONE;
        return true;
    case OPT_MOUNT:
        add_mount(options, arg);
        return true;
    case OPT_ENV:
        options->env[options->env_count++] = arg;
        return true;
    case OPT_HOSTNAME:
        spec->hostname = arg;
        return true;
    case OPT_ID:
        spec->id = arg;
        return true;
    case OPT_STAGE:
        spec->stage = arg;
        return true;
    case OPT_COPY:
        spec->init_path = NULL;
        spec->init_fd = open(arg, O_RDONLY | O_CLOEXEC);
        return spec->init_fd >= 0;
    default:
        return false;
    }
}

static bool parse_limit(struct options *options, int opt, const char *arg)
{
    struct runtime_limits *limits = &options->spec.limits;
    unsigned long long number = arg ? strtoull(arg, NULL, 10) : 0;

    switch (opt) {
    case OPT_MEMORY:
        limits->memory_bytes = number;
        return true;
    case OPT_CPU:
        limits->cpu_quota_us = (uint32_t) number;
        return true;
    case OPT_SHARES:
        limits->cpu_shares = (uint32_t) number;
        return true;
    case OPT_PIDS:
        limits->pids = (uint32_t) number;
        return true;
    case OPT_OWN_CGROUP:
        options->spec.own_cgroup = true;
        return true;
    case OPT_FREEZE:
        options->freeze_ms = (int) number;
        return true;
    case OPT_TIME:
        options->times = (int) number;
        return true;
    case OPT_NO_DISABLE_USERNS:
        options->no_disable_userns = true;
        return true;
    default:
        options->bwrap = arg;
        return opt == OPT_BWRAP;
    }
}

static int show_events(struct runtime_process *process)
{
    struct runtime_event event;
    int count = 0;

    while (runtime_next_event(process, &event) == 1) {
        fprintf(stderr, "event %s %" PRIu64 " %" PRIu64 "\n", event.kind == RUNTIME_EVENT_MEMORY ? "memory" : "pids",
                event.count, event.limit);
        count++;
    }
    return count;
}

static void show_output(struct runtime_process *process)
{
    char text[4096];
    ssize_t n;

    while ((n = read(process->output_fd, text, sizeof(text))) > 0)
        fprintf(stderr, "output %.*s", (int) n, text);
}

/* Passes on what the script prints until it has closed its end or bwrap has ended, and events while they come. */
static void relay(struct runtime_process *process, int socket)
{
    struct pollfd fds[] = { { socket, POLLIN, 0 },
                            { runtime_event_fd(process), POLLIN, 0 },
                            { process->proc.pidfd, POLLIN, 0 } };
    char bytes[65536];

    for (;;) {
        ssize_t n;

        poll(fds, 3, -1);
        if (fds[1].revents)
            show_events(process);
        if (!fds[0].revents && fds[2].revents)
            return;
        if (!fds[0].revents)
            continue;
        n = read(socket, bytes, sizeof(bytes));
        if (n <= 0 || fd_write_full(1, bytes, (size_t) n) < 0)
            return;
    }
}

/* Waits for the script's first output: then it is at work. */
static void wait_for_output(int output)
{
    poll(&(struct pollfd){ .fd = output, .events = POLLIN }, 1, -1);
}

static void freeze(struct runtime_process *process, int output, int ms)
{
    wait_for_output(output);
    int r = runtime_freeze(process, true);

    fprintf(stderr, "frozen %d\n", r);
    poll(NULL, 0, ms);
    fprintf(stderr, "thawed %d\n", runtime_freeze(process, false));
}

static int run(struct runtime *runtime, struct options *options, const char *script, bool quiet)
{
    autoptr(runtime_process) process = NULL;
    autofree char *text = xprintf("exec >&3 2>&1 3>&-\n%s", script);
    const char *argv[] = { "-c", text, NULL };
    struct err err = ERR_NONE;
    int pair[2], status = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return 125;
    autofd int ours = pair[0], theirs = pair[1];
    options->spec.init_socket = theirs;
    options->spec.init_argv = argv;
    if (runtime_start(runtime, &options->spec, &process, &err) < 0)
        return fail(&err);
    close(steal_fd(&theirs));
    if (!quiet)
        fprintf(stderr, "started %d %d nproc %u\n", process->proc.pid, process->init_pid, process->nproc_rlimit);
    if (options->freeze_ms)
        freeze(process, ours, options->freeze_ms);
    relay(process, ours);
    proc_wait(&process->proc, &status);
    poll(NULL, 0, process->watch && !quiet ? 60 : 0);
    show_events(process);
    show_output(process);
    if (!quiet)
        fprintf(stderr, "exit %d\n", proc_exit_code(status));
    return proc_exit_code(status);
}

/* Median, least and most milliseconds from the call to the first byte out of the sandbox. */
static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return x < y ? -1 : x > y;
}

static int measure(struct runtime *runtime, struct options *options, const char *script)
{
    int64_t *spans = xalloc((size_t) options->times * sizeof(*spans));

    for (int i = 0; i < options->times; i++) {
        int64_t begin = clock_now_ns();

        if (run(runtime, options, script, true) != 0)
            return 125;
        spans[i] = clock_now_ns() - begin;
    }
    qsort(spans, (size_t) options->times, sizeof(*spans), compare);
    printf("median %.2f ms, least %.2f, most %.2f\n", (double) spans[options->times / 2] / 1e6, (double) spans[0] / 1e6,
           (double) spans[options->times - 1] / 1e6);
    free(spans);
    return 0;
}

/* As a supervisor does it, but that it has a fence where this has the workspace itself. */
static int open_stage(const struct runtime_spec *spec, struct err *err)
{
    autofree char *workspace = xprintf("%s" STAGE_WORKSPACE, spec->stage);
    int r = namespace_enter(err);

    if (r < 0)
        return r;
    r = stage_open(spec->stage, spec->uid, spec->gid);
    if (r == 0 && (mount(spec->workspace, workspace, NULL, MS_BIND, NULL) < 0 ||
                   mount(NULL, workspace, NULL, MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV, NULL) < 0))
        r = -errno;
    return r < 0 ? err_errno(err, r, "staging") : 0;
}

static int with_runtime(struct options *options, const char *script)
{
    autoptr(runtime) runtime = NULL;
    struct bwrap_probe probe;
    struct err err = ERR_NONE;

    if (bwrap_probe(options->bwrap, &probe, &err) < 0)
        return fail(&err);
    if (options->no_disable_userns)
        probe.has_disable_userns = false;
    if (options->spec.stage && open_stage(&options->spec, &err) < 0)
        return fail(&err);
    runtime = bwrap_runtime_of_probe(&probe);
    return options->times ? measure(runtime, options, script) : run(runtime, options, script, false);
}

int main(int argc, char **argv)
{
    struct options options = { .spec = RUNTIME_SPEC_NONE };
    char id[ID_TEXT_MAX];
    int opt;

    setvbuf(stderr, NULL, _IOLBF, 0);
    if (argc == 2 && strcmp(argv[1], "--sweep") == 0) {
        printf("%d\n", bwrap_orphan_sweep());
        return 0;
    }
    id_new("sbtest_", id);
    options.spec.id = id;
    options.spec.init_path = "/bin/sh";
    options.spec.uid = geteuid();
    options.spec.gid = getegid();
    options.spec.mounts = options.mounts;
    options.spec.env = options.env;
    while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        if (!parse_spec(&options, opt, optarg) && !parse_limit(&options, opt, optarg))
            return 2;
    if (optind != argc - 1)
        return 2;
    return with_runtime(&options, argv[optind]);
}
