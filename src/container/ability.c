#include "container/ability.h"

#include <errno.h>

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

int ability_ask(struct engine *engine, struct ability *ret, struct err *err)
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
    return 0;
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
