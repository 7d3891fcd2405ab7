#include "container/engine_caps.h"

#include <errno.h>
#include <string.h>

#include "container/response.h"

#define ASK_MS 30000

void engine_caps_read(const json_t *info, struct engine_caps *ret)
{
    *ret = (struct engine_caps){
        .memory = response_is_true(info, "MemoryLimit"),
        .swap = response_is_true(info, "SwapLimit"),
        .cpu_quota = response_is_true(info, "CpuCfsQuota"),
        .cpu_shares = response_is_true(info, "CPUShares"),
        .pids = response_is_true(info, "PidsLimit"),
    };
}

int engine_caps_check_runtime(const json_t *info, const char *oci_runtime, struct err *err)
{
    json_t *runtimes = json_object_get(info, "Runtimes");
    autodone(buf) struct buf names = BUF_EMPTY;
    const char *name;
    json_t *ignored;

    if (*oci_runtime == '\0' || strchr(oci_runtime, '.') || !json_is_object(runtimes) || json_object_get(runtimes, oci_runtime))
        return 0;
    json_object_foreach(runtimes, name, ignored)
    {
        if (names.len < RESPONSE_TEXT_MAX) {
            buf_add_str(&names, names.len ? ", " : "");
            response_add_text(&names, name);
        }
    }
    return err_set(err, ERR_FAILED_PRECONDITION, -ENOENT,
                   "the Docker engine has no OCI runtime '%s', which runtime.docker.oci_runtime names; it has: %s", oci_runtime,
                   names.len ? names.data : "none");
}

int engine_caps_query(struct engine *engine, const char *oci_runtime, struct engine_caps *ret, struct err *err)
{
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    autoptr(json_t) info = NULL;
    int r =
        engine_send(engine, &(struct engine_request){ .method = "GET", .path = "/info", .timeout_ms = ASK_MS }, &response, err);

    if (r == 0)
        r = response_check(&response, err);
    if (r == 0)
        r = response_json(&response, JSON_OBJECT, &info, err);
    if (r < 0)
        return r;
    engine_caps_read(info, ret);
    return engine_caps_check_runtime(info, oci_runtime, err);
}

static int engine_caps_reject(const char *what, struct err *err)
{
    return err_set(err, ERR_FAILED_PRECONDITION, -ENOTSUP,
                   "a %s limit cannot be enforced here: the Docker engine cannot set one", what);
}

int engine_caps_check(const struct engine_caps *caps, const struct runtime_limits *limits, struct err *err)
{
    if (limits->memory_bytes && !caps->memory)
        return engine_caps_reject("memory", err);
    if (limits->cpu_quota_us && !caps->cpu_quota)
        return engine_caps_reject("cpu", err);
    if (limits->cpu_shares && !caps->cpu_shares)
        return engine_caps_reject("cpu", err);
    if (limits->pids && !caps->pids)
        return engine_caps_reject("pids", err);
    return 0;
}
