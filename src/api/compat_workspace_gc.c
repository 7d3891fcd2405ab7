/* Collecting sandboxes. */
#include <string.h>

#include "api/compat_workspace.h"
#include "base/clock.h"
#include "base/mem.h"
#include "service/known_keys.h"
#include "service/sandbox_care.h"

static int gc_read_statuses(const json_t *policy, unsigned *ret, struct err *err)
{
    autofree const char **names = NULL;
    size_t count = 0;
    int r = compat_get_texts(policy, "statuses", 16, &names, &count, err);

    for (size_t i = 0; r == 0 && i < count; i++) {
        enum sandbox_state state;

        if (!sandbox_state_parse(names[i], &state))
            return err_reject(err, -EINVAL, names[i], "is no status");
        *ret |= SANDBOX_STATE_BIT(state);
    }
    return r;
}

/* A policy in the request replaces the server's: a criterion that it does not name collects nothing. */
static int gc_read_policy(const json_t *policy, struct sandbox_gc *gc, struct err *err)
{
    static const char *const keys[] = { "maxAge",        "idleTimeout", "maxTotalSizeBytes", "includeTerminal",
                                        "terminalDelay", "statuses",    "trashDelay",        NULL };
    int64_t terminal = -1;
    int r = known_keys_check(policy, keys, "a policy", err);

    *gc = (struct sandbox_gc){ .max_age_ns = -1, .idle_ns = -1, .terminal_delay_ns = -1, .trash_ns = -1 };
    if (r == 0)
        r = compat_read(policy, err, { "trashDelay", .duration_ns = &gc->trash_ns },
                        { "maxAge", .duration_ns = &gc->max_age_ns }, { "idleTimeout", .duration_ns = &gc->idle_ns },
                        { "terminalDelay", .duration_ns = &terminal },
                        { "maxTotalSizeBytes", .number = &gc->max_total_bytes, .least = 0, .most = INT64_MAX },
                        { "includeTerminal", .flag = &gc->with_terminal });
    gc->terminal_delay_ns = terminal < 0 && gc->with_terminal ? 0 : terminal;
    gc->with_terminal |= terminal >= 0;
    return r < 0 ? r : gc_read_statuses(policy, &gc->states, err);
}

/* `olderThan`, `maxAge` and `idleTimeout` beside the policy are short for a policy with that criterion alone. */
static int gc_read_short_policy(struct ws *ws, struct sandbox_gc *gc, struct err *err)
{
    int64_t age = -1, idle = -1;
    int r = compat_read(ws->body, err, { "maxAge", .duration_ns = &age }, { "olderThan", .duration_ns = &age },
                        { "idleTimeout", .duration_ns = &idle });

    if (r == 0 && (age >= 0 || idle >= 0))
        *gc = (struct sandbox_gc){
            .max_age_ns = age, .idle_ns = idle, .terminal_delay_ns = -1, .with_terminal = true, .trash_ns = gc->trash_ns
        };
    return r;
}

static json_t *make_gc_answer(const struct sandbox_gc_result *result, bool is_dry, int64_t began_ns)
{
    json_t *collected = json_array(), *errors = json_array(), *reasons = json_object(), *answer;
    int64_t bytes = 0;

    for (size_t i = 0; i < result->count; i++) {
        const struct sandbox_gc_one *one = &result->items[i];

        if (*one->error) {
            json_array_append_new(errors, json_pack("{s:o, s:o}", "sandboxId", compat_uuid(one->row.id), "error",
                                                    compat_text(one->error, strlen(one->error))));
            continue;
        }
        json_t *item = json_pack("{s:o, s:o, s:s, s:I, s:s}", "id", compat_uuid(one->row.id), "scopePath",
                                 compat_text(one->row.scope_path, strlen(one->row.scope_path)), "status",
                                 sandbox_state_name(sandbox_row_state(&one->row)), "sizeBytes",
                                 (json_int_t) one->row.size_bytes, "reason", one->reason);
        compat_set_time(item, "createdAt", one->row.created_ns);
        json_array_append_new(collected, item);
        char uuid[UUID_TEXT_MAX];
        sandbox_id_to_uuid(one->row.id, uuid);
        json_object_set_new(reasons, uuid, json_pack("[s]", one->reason));
        bytes += one->row.size_bytes;
    }
    answer = json_pack("{s:o, s:I, s:I, s:b}", "collected", collected, "totalCollected",
                       (json_int_t) json_array_size(collected), "totalBytesReclaimed", (json_int_t) bytes, "dryRun", is_dry);
    json_object_set_new(answer, "trash",
                        json_pack("{s:I, s:I, s:I, s:I}", "kept", (json_int_t) result->trash.kept, "keptBytes",
                                  (json_int_t) result->trash.kept_bytes, "purged", (json_int_t) result->trash.purged,
                                  "purgedBytes", (json_int_t) result->trash.purged_bytes));
    json_object_set_new(answer, "pruned",
                        json_pack("{s:I, s:I, s:I}", "approvals", (json_int_t) result->pruned_records, "preImages",
                                  (json_int_t) result->pruned_copies, "bytes", (json_int_t) result->pruned_bytes));
    if (json_array_size(errors) > 0)
        json_object_set(answer, "errors", errors);
    if (json_object_size(reasons) > 0)
        json_object_set(answer, "reasons", reasons);
    json_decref(errors);
    json_decref(reasons);
    compat_set_time(answer, "startedAt", began_ns);
    compat_set_time(answer, "completedAt", clock_wall_ns());
    return answer;
}

static int gc_run(struct ws *ws, bool is_preview, struct err *err)
{
    struct sandbox_gc gc = sandboxes_gc_default(ws->service);
    struct sandbox_gc_result result = { 0 };
    const json_t *policy = NULL;
    int64_t limit = 100, began_ns = clock_wall_ns();
    bool is_dry = false;
    const char *actor = "";
    int r = compat_get_object(ws->body, "policy", &policy, err);

    if (r == 0)
        r = policy ? gc_read_policy(policy, &gc, err) : gc_read_short_policy(ws, &gc, err);
    if (r == 0)
        r = compat_read(ws->body, err, { "dryRun", .flag = &is_dry }, { "limit", .number = &limit, .least = 1, .most = 100000 },
                        { "actor", .text = &actor, .text_max = 256 });
    if (r < 0)
        return r;
    gc.is_dry = is_dry || is_preview;
    gc.limit = (size_t) limit;
    r = sandboxes_gc(ws->service, &ws->caller, &gc, &result, err);
    if (r == 0)
        r = compat_answer(ws, 200, make_gc_answer(&result, gc.is_dry, began_ns));
    sandbox_gc_result_done(&result);
    return r;
}

int compat_gc(struct ws *ws, struct err *err)
{
    return gc_run(ws, false, err);
}

int compat_gc_preview(struct ws *ws, struct err *err)
{
    return gc_run(ws, true, err);
}
