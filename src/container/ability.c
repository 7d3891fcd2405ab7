#include "container/ability.h"

#include <errno.h>
#include <string.h>

#include "container/answer.h"

#define ASK_MS 30000

void ability_read(const json_t *info, struct ability *ret)
{
    *ret = (struct ability){
        .memory = answer_is_true(info, "MemoryLimit"),
        .swap = answer_is_true(info, "SwapLimit"),
        .cpu_quota = answer_is_true(info, "CpuCfsQuota"),
        .cpu_shares = answer_is_true(info, "CPUShares"),
        .pids = answer_is_true(info, "PidsLimit"),
    };
}

int ability_check_runtime(const json_t *info, const char *oci_runtime, struct err *err)
{
    json_t *runtimes = json_object_get(info, "Runtimes");
    autodone(buf) struct buf names = BUF_EMPTY;
    const char *name;
    json_t *ignored;

    if (*oci_runtime == '\0' || strchr(oci_runtime, '.') || !json_is_object(runtimes) || json_object_get(runtimes, oci_runtime))
        return 0;
    json_object_foreach(runtimes, name, ignored)
    {
        if (names.len < ANSWER_TEXT_MAX) {
            buf_add_str(&names, names.len ? ", " : "");
            answer_add_text(&names, name);
        }
    }
    return err_set(err, ERR_FAILED_PRECONDITION, -ENOENT,
                   "the Docker engine has no OCI runtime '%s', which runtime.docker.oci_runtime names; it has: %s", oci_runtime,
                   names.len ? names.data : "none");
}

int ability_ask(struct engine *engine, const char *oci_runtime, struct ability *ret, struct err *err)
{
    autodone(engine_answer) struct engine_answer answer = ENGINE_ANSWER_NONE;
    autoptr(json_t) info = NULL;
    int r =
        engine_ask(engine, &(struct engine_question){ .method = "GET", .path = "/info", .timeout_ms = ASK_MS }, &answer, err);

    if (r == 0)
        r = answer_check(&answer, err);
    if (r == 0)
        r = answer_json(&answer, JSON_OBJECT, &info, err);
    if (r < 0)
        return r;
    ability_read(info, ret);
    return ability_check_runtime(info, oci_runtime, err);
}

static int refuse(const char *what, struct err *err)
{
    return err_set(err, ERR_FAILED_PRECONDITION, -ENOTSUP,
                   "a %s limit cannot be enforced here: the Docker engine cannot set one", what);
}

int ability_check(const struct ability *ability, const struct runtime_limits *limits, struct err *err)
{
    if (limits->memory_bytes && !ability->memory)
        return refuse("memory", err);
    if (limits->cpu_quota_us && !ability->cpu_quota)
        return refuse("cpu", err);
    if (limits->cpu_shares && !ability->cpu_shares)
        return refuse("cpu", err);
    if (limits->pids && !ability->pids)
        return refuse("pids", err);
    return 0;
}
