#include "runtime/runtime_spec.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/identity.h"

/* Directories of the sandbox itself: bound from the host, or writable inside. A mount must be in another top directory. */
static const char *const taken[] = {
    "/bin",  "/boot", "/dev",  "/etc", "/home", "/lib", "/lib32", "/lib64",   "/libx32",  "/proc",
    "/root", "/run",  "/sbin", "/sys", "/tmp",  "/usr", "/var",   "/oldroot", "/newroot", RUNTIME_WORKSPACE,
};

const char *const runtime_environment[] = {
    "HOME=" RUNTIME_HOME, "USER=" RUNTIME_USER, "LOGNAME=" RUNTIME_USER, "SHELL=/bin/sh",
    "PATH=" RUNTIME_PATH, "LANG=C.UTF-8",       "TMPDIR=/tmp",           NULL,
};

static int check_name(const char *what, const char *name, size_t max, struct err *err)
{
    size_t len = name ? strlen(name) : 0;

    if (len == 0 || len > max)
        return err_invalid(err, "the %s needs 1 to %zu characters", what, max);
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char) name[i]) && !(i > 0 && strchr("-_.", name[i])))
            return err_invalid(err, "the %s has a character that is no letter, digit, '-', '_' or '.'", what);
    return 0;
}

static int check_ids(const struct runtime_spec *spec, struct err *err)
{
    uid_t uid = runtime_spec_agent_uid(spec);
    gid_t gid = runtime_spec_agent_gid(spec);

    /* 65534 ("nobody") is what the kernel shows for unmapped ids. */
    if (uid == 65534 || gid == 65534 || uid == (uid_t) -1 || gid == (gid_t) -1)
        return err_invalid(err, "the agent's uid and gid cannot be 65534, which means nobody");
    return identity_check(spec->uid, spec->gid, err);
}

static int check_limits(const struct runtime_limits *limits, struct err *err)
{
    if (limits->memory_bytes && limits->memory_bytes < (4ULL << 20))
        return err_invalid(err, "a memory limit below 4 MB leaves no room to start a command");
    if (limits->cpu_quota_us && limits->cpu_quota_us < 1000)
        return err_invalid(err, "a cpu quota below 1000 us per 100 ms is less than the kernel can give");
    if (limits->cpu_shares && (limits->cpu_shares < 2 || limits->cpu_shares > 262144))
        return err_invalid(err, "cpu shares are 2 to 262144, not %u", limits->cpu_shares);
    if (limits->pids && limits->pids < 4)
        return err_invalid(err, "a pids limit below 4 leaves no room for init and a command");
    return 0;
}

static int check_env(const char *const *env, struct err *err)
{
    for (; env && *env; env++) {
        const char *equals = strchr(*env, '=');

        if (!equals || equals == *env)
            return err_invalid(err, "an environment entry is not NAME=value");
    }
    return 0;
}

static int check_path(const char *what, const char *path, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;

    if (!path || path[0] != '/')
        return err_invalid(err, "the %s of a mount must be an absolute path", what);
    if (path_clean(path, strlen(path), &clean) < 0 || strcmp(clean.data, path) != 0)
        return err_invalid(err, "the %s '%s' has '.', '..', '//' or a trailing slash", what, path);
    return 0;
}

static int check_destination(const char *dst, struct err *err)
{
    int r = check_path("destination", dst, err);

    if (r < 0)
        return r;
    if (strcmp(dst, "/") == 0)
        return err_invalid(err, "a mount cannot replace '/'");
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (path_is_beneath(taken[i], dst))
            return err_invalid(err,
                               "the destination '%s' lies in '%s', which the sandbox itself needs; use a place like '/mnt/...'",
                               dst, taken[i]);
    return 0;
}

static int check_mount(const struct runtime_spec *spec, size_t index, struct err *err)
{
    const struct runtime_mount *mount = &spec->mounts[index];
    struct stat st;
    int r = check_destination(mount->dst, err);

    if (r < 0)
        return r;
    r = check_path("source", mount->src, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < spec->mount_count; i++)
        if (i != index && path_is_beneath(spec->mounts[i].dst, mount->dst))
            return err_invalid(err, "the destination '%s' lies in another mount's, '%s'", mount->dst, spec->mounts[i].dst);
    if (stat(mount->src, &st) < 0)
        return err_errno(err, -errno, "the source '%s' of a mount", mount->src);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISSOCK(st.st_mode))
        return err_invalid(err, "the source '%s' of a mount is no directory, file or socket", mount->src);
    return 0;
}

int runtime_spec_check(const struct runtime_spec *spec, struct err *err)
{
    int r;

    if ((r = check_name("sandbox id", spec->id, RUNTIME_ID_MAX, err)) < 0 ||
        (r = check_name("hostname", runtime_spec_hostname(spec), 63, err)) < 0 || (r = check_ids(spec, err)) < 0 ||
        (r = check_limits(&spec->limits, err)) < 0 || (r = check_env(spec->env, err)) < 0)
        return r;
    if (spec->net == SANDBOX_NET_BRIDGE && !spec->container)
        return err_invalid(err, "the network 'bridge' is for containers");
    if (!spec->workspace && !spec->stage)
        return err_invalid(err, "a sandbox needs a workspace");
    if (!spec->init_path && spec->init_fd < 0)
        return err_invalid(err, "a sandbox needs an init program");
    if (spec->mount_count > RUNTIME_MOUNTS_MAX)
        return err_invalid(err, "more than %d mounts", RUNTIME_MOUNTS_MAX);
    for (size_t i = 0; i < spec->mount_count; i++) {
        r = check_mount(spec, i, err);
        if (r < 0)
            return r;
    }
    return 0;
}

uid_t runtime_spec_agent_uid(const struct runtime_spec *spec)
{
    return spec->agent_uid ? spec->agent_uid : RUNTIME_AGENT_ID;
}

gid_t runtime_spec_agent_gid(const struct runtime_spec *spec)
{
    return spec->agent_gid ? spec->agent_gid : RUNTIME_AGENT_ID;
}

const char *runtime_spec_hostname(const struct runtime_spec *spec)
{
    return spec->hostname ? spec->hostname : "sandbox";
}

uint32_t runtime_spec_pids(const struct runtime_spec *spec)
{
    return spec->limits.pids ? spec->limits.pids : RUNTIME_PIDS_DEFAULT;
}
