#include "cli/mount_options.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/size.h"

const char mount_options_help[] =
    "usage: agentfense mount --base DIR --delta DIR [options] MOUNTPOINT\n\n"
    "Shows DIR under the rules at MOUNTPOINT and keeps every change in the delta. Stays in the foreground; SIGINT or SIGTERM\n"
    "unmounts, SIGHUP reads the rules again.\n\n"
    "  --base DIR             what is shown; never written\n"
    "  --delta DIR            where changes go; made if it does not exist\n" POLICY_OPTIONS_HELP
    "  --quota SIZE           most bytes of changes (1G, 500M)\n"
    "  --quota-inodes N       most names of changes\n"
    "  --uid N, --gid N       who everything belongs to; default: you\n"
    "  --live                 the base is edited by others meanwhile\n"
    "  --data-path MODE       auto, cached or passthrough\n"
    "  --threads N            most worker threads\n"
    "  --version-time TIME    times of unchanged directories, as 2026-01-02T03:04:05Z\n"
    "  --events FILE          append refusals as JSON lines\n"
    "  --control PATH         a unix socket that takes lines: rules FILE, changed [PATH], stats, sync\n"
    "  --ready-fd N           write one byte there once mounted\n"
    "  --other-base           take a delta that was made over another base\n"
    "  --foreground           stay in the foreground (always so)\n"
    "  -h, --help             this text\n";

enum {
    OPT_BASE = 1,
    OPT_DELTA,
    OPT_QUOTA,
    OPT_QUOTA_INODES,
    OPT_UID,
    OPT_GID,
    OPT_LIVE,
    OPT_DATA_PATH,
    OPT_THREADS,
    OPT_VERSION_TIME,
    OPT_EVENTS,
    OPT_CONTROL,
    OPT_READY_FD,
    OPT_OTHER_BASE,
    OPT_FOREGROUND,
};

static const struct option long_options[] = {
    { "base", required_argument, NULL, OPT_BASE },
    { "delta", required_argument, NULL, OPT_DELTA },
    { "quota", required_argument, NULL, OPT_QUOTA },
    { "quota-inodes", required_argument, NULL, OPT_QUOTA_INODES },
    { "uid", required_argument, NULL, OPT_UID },
    { "gid", required_argument, NULL, OPT_GID },
    { "live", no_argument, NULL, OPT_LIVE },
    { "data-path", required_argument, NULL, OPT_DATA_PATH },
    { "threads", required_argument, NULL, OPT_THREADS },
    { "version-time", required_argument, NULL, OPT_VERSION_TIME },
    { "events", required_argument, NULL, OPT_EVENTS },
    { "control", required_argument, NULL, OPT_CONTROL },
    { "ready-fd", required_argument, NULL, OPT_READY_FD },
    { "other-base", no_argument, NULL, OPT_OTHER_BASE },
    { "foreground", no_argument, NULL, OPT_FOREGROUND },
    { "help", no_argument, NULL, 'h' },
    POLICY_LONG_OPTIONS,
    { NULL, 0, NULL, 0 },
};

static int parse_number(const char *name, const char *text, uint64_t most, uint64_t *ret, struct err *err)
{
    char *end;

    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno || *end || !isdigit((unsigned char) *text) || n > most)
        return err_invalid(err, "--%s '%s' is not a number from 0 to %" PRIu64, name, text, most);
    *ret = n;
    return 0;
}

static int parse_data_path(const char *text, enum fence_data_path *ret, struct err *err)
{
    static const char *const names[] = {
        [FENCE_DATA_AUTO] = "auto", [FENCE_DATA_CACHED] = "cached", [FENCE_DATA_PASSTHROUGH] = "passthrough"
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum fence_data_path) i;
            return 0;
        }
    }
    return err_invalid(err, "--data-path '%s' is not one of auto, cached, passthrough", text);
}

static int take_number(struct mount_options *o, int option, const char *arg, struct err *err)
{
    uint64_t n = 0;
    int r = 0;

    switch (option) {
    case OPT_QUOTA_INODES:
        return parse_number("quota-inodes", arg, INT64_MAX, &o->config.quota_inodes, err);
    case OPT_UID:
        r = parse_number("uid", arg, UINT32_MAX - 1, &n, err);
        o->config.uid = (uid_t) n;
        return r;
    case OPT_GID:
        r = parse_number("gid", arg, UINT32_MAX - 1, &n, err);
        o->config.gid = (gid_t) n;
        return r;
    case OPT_THREADS:
        r = parse_number("threads", arg, 1024, &n, err);
        o->config.threads = (unsigned) n;
        return r;
    default:
        r = parse_number("ready-fd", arg, INT32_MAX, &n, err);
        o->ready_fd = (int) n;
        return r == 0 && fcntl(o->ready_fd, F_GETFD) < 0 ? err_invalid(err, "--ready-fd '%s' is not open", arg) : r;
    }
}

static int take_size(const char *name, const char *arg, uint64_t *ret, struct err *err)
{
    int r = size_parse(arg, ret, err);

    return r < 0 ? err_wrap(err, r, "--%s", name) : 0;
}

static int take_time(const char *arg, int64_t *ret_ns, struct err *err)
{
    struct timespec t;
    int r = clock_parse(arg, &t, err);

    if (r < 0)
        return err_wrap(err, r, "--version-time");
    *ret_ns = (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
    return 0;
}

static int take_option(struct mount_options *o, int option, const char *arg, struct err *err)
{
    switch (option) {
    case OPT_BASE:
        o->config.base_path = arg;
        return 0;
    case OPT_DELTA:
        o->config.delta_path = arg;
        return 0;
    case OPT_QUOTA:
        return take_size("quota", arg, &o->config.quota_bytes, err);
    case OPT_LIVE:
        o->config.is_live = true;
        return 0;
    case OPT_DATA_PATH:
        return parse_data_path(arg, &o->config.data_path, err);
    case OPT_VERSION_TIME:
        return take_time(arg, &o->config.version_time_ns, err);
    case OPT_EVENTS:
        o->events_path = arg;
        return 0;
    case OPT_CONTROL:
        o->control_path = arg;
        return 0;
    case OPT_OTHER_BASE:
        o->config.keeps_other_base = true;
        return 0;
    case OPT_FOREGROUND:
        return 0;
    case 'h':
        o->wants_help = true;
        return 0;
    case '?':
        return err_invalid(err, "see 'agentfense mount --help'");
    default:
        return policy_options_take(&o->policy, option, arg) ? 0 : take_number(o, option, arg, err);
    }
}

int mount_options_parse(int argc, char **argv, struct mount_options *o, struct err *err)
{
    int option, r;

    o->config.uid = getuid();
    o->config.gid = getgid();
    o->ready_fd = -1;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        r = take_option(o, option, optarg, err);
        if (r < 0 || o->wants_help)
            return r;
    }
    if (!o->config.base_path || !o->config.delta_path)
        return err_invalid(err, "both --base and --delta are needed");
    if (optind + 1 != argc)
        return err_invalid(err, "exactly one mount point is needed");
    o->mount_point = argv[optind];
    return 0;
}

void mount_options_done(struct mount_options *options)
{
    policy_options_done(&options->policy);
}
