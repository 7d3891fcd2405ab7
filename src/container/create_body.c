#include "container/create_body.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "container/init_socket.h"
#include "container/seccomp_profile.h"

#define SOCKET_INSIDE RUNTIME_DIR "/" INIT_SOCKET_NAME

const char *const create_body_etc[] = { "/etc/passwd", "/etc/group", "/etc/gitconfig", NULL };

void create_body_name(const struct docker_order *order, struct buf *out)
{
    buf_addf(out, "agentfense-%s", order->spec.id);
}

/* Returns false if a path is not UTF-8. */
static bool add_bind(json_t *mounts, const char *source, const char *target, bool read_only)
{
    return json_array_append_new(mounts, json_pack("{s:s, s:s, s:s, s:b, s:{s:s}}", "Type", "bind", "Source", source, "Target",
                                                   target, "ReadOnly", read_only, "BindOptions", "Propagation", "rprivate")) ==
           0;
}

/* Returns NULL if JSON cannot express a mount, because a container without it would be a different one. */
static json_t *mounts_of(const struct docker_order *order)
{
    const char *dir = order->container.dir;
    autofree char *socket = xprintf("%s/" CREATE_BODY_DIR "/" INIT_SOCKET_NAME, dir);
    json_t *mounts = json_array();
    bool is_whole = add_bind(mounts, order->spec.workspace, RUNTIME_WORKSPACE, false) &&
                    add_bind(mounts, order->spec.init_path, RUNTIME_INIT, true) &&
                    add_bind(mounts, socket, SOCKET_INSIDE, true);

    for (const char *const *etc = create_body_etc; *etc; etc++) {
        autofree char *source = xprintf("%s/" CREATE_BODY_DIR "/%s", dir, strrchr(*etc, '/') + 1);

        is_whole = add_bind(mounts, source, *etc, true) && is_whole;
    }
    for (size_t i = 0; i < order->spec.mount_count; i++)
        is_whole = add_bind(mounts, order->mounts[i].src, order->mounts[i].dst, order->mounts[i].read_only) && is_whole;
    if (is_whole)
        return mounts;
    json_decref(mounts);
    return NULL;
}

static json_t *tmpfs_of(const struct runtime_spec *spec)
{
    uint64_t tmp = spec->tmp_bytes ? spec->tmp_bytes : RUNTIME_TMP_BYTES;
    autofree char *tmp_options = xprintf("rw,exec,nosuid,nodev,size=%" PRIu64 ",mode=1777", tmp);
    autofree char *home_options = xprintf("rw,exec,nosuid,nodev,size=%" PRIu64 ",mode=0755,uid=%u,gid=%u",
                                          (uint64_t) RUNTIME_HOME_BYTES, spec->uid, spec->gid);

    /* Directories that any user may write in most images, and that nothing else would limit. */
    return json_pack("{s:s, s:s, s:s}", "/tmp", tmp_options, "/var/tmp", tmp_options, RUNTIME_HOME, home_options);
}

static json_t *security_of(void)
{
    json_t *profile = seccomp_profile_new();
    autofree char *text = json_dumps(profile, JSON_COMPACT);
    autofree char *option = xprintf("seccomp=%s", text ? text : "");

    json_decref(profile);
    return json_pack("[s, s]", "no-new-privileges:true", option);
}

static const char *network_of(enum sandbox_net net)
{
    return net == SANDBOX_NET_HOST ? "host" : net == SANDBOX_NET_BRIDGE ? "bridge" : "none";
}

static void set_number(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t) value));
}

/* Without a swap limit, a memory limit only moves the problem to the disk. Set if the engine counts swap. */
static void set_limits(json_t *host, const struct runtime_spec *spec, const struct engine_caps *caps)
{
    const struct runtime_limits *limits = &spec->limits;

    if (limits->memory_bytes)
        set_number(host, "Memory", limits->memory_bytes);
    if (limits->memory_bytes && caps->swap)
        set_number(host, "MemorySwap", limits->memory_bytes);
    if (limits->cpu_quota_us) {
        set_number(host, "CpuPeriod", RUNTIME_CPU_PERIOD_US);
        set_number(host, "CpuQuota", limits->cpu_quota_us);
    }
    if (limits->cpu_shares)
        set_number(host, "CpuShares", limits->cpu_shares);
    if (caps->pids)
        set_number(host, "PidsLimit", runtime_spec_pids(spec));
}

static json_t *host_of(const struct docker_order *order, const struct engine_caps *caps)
{
    const struct runtime_spec *spec = &order->spec;
    json_t *host =
        json_pack("{s:o, s:o, s:o, s:s, s:[s], s:b, s:b, s:s, s:s, s:s, s:{s:s}, s:{s:s}, s:[{s:s, s:i, s:i}]}", "Mounts",
                  mounts_of(order), "Tmpfs", tmpfs_of(spec), "SecurityOpt", security_of(), "NetworkMode", network_of(spec->net),
                  "CapDrop", "ALL", "AutoRemove", 1, "ReadonlyRootfs", order->container.read_only_root, "IpcMode", "private",
                  "CgroupnsMode", "private", "UsernsMode", "host", "LogConfig", "Type", "none", "RestartPolicy", "Name", "no",
                  "Ulimits", "Name", "core", "Soft", 0, "Hard", 0);

    set_number(host, "ShmSize", RUNTIME_SHM_BYTES);
    if (order->container.oci_runtime[0] != '\0')
        json_object_set_new(host, "Runtime", json_string(order->container.oci_runtime));
    set_limits(host, spec, caps);
    return host;
}

json_t *create_body_new(const struct docker_order *order, const struct engine_caps *caps)
{
    const struct runtime_container *container = &order->container;
    autofree char *user = xprintf("%u:%u", order->spec.uid, order->spec.gid);

    return json_pack("{s:s, s:s, s:s, s:[], s:s, s:[s], s:[s, s], s:{s:s, s:s}, s:{s:[s]}, s:o}", "Image", container->image,
                     "Hostname", order->spec.hostname, "User", user, "Env", "WorkingDir", "/", "Entrypoint", RUNTIME_INIT,
                     "Cmd", "--socket", SOCKET_INSIDE, "Labels", CREATE_BODY_LABEL_SANDBOX, container->sandbox,
                     CREATE_BODY_LABEL_HOME, container->home, "Healthcheck", "Test", "NONE", "HostConfig",
                     host_of(order, caps));
}
