/* Collects and runs the hooks that test an approval before it is applied. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "service/reviews_int.h"

#define CHANGED_BYTES_MAX ((size_t) 32 << 10)

/* ---- collecting ---- */

/* A temporary lack of resources says nothing about the hooks. */
static int refuse_config(int r, struct err *err)
{
    if (err->code == ERR_RESOURCE_EXHAUSTED)
        return r;
    err->code = ERR_FAILED_PRECONDITION;
    return err_set_reason(err, r, "HOOKS_UNREADABLE");
}

static int add_server_hooks(const struct service *service, struct hook_list *list)
{
    for (size_t i = 0; i < service->hooks.count; i++) {
        const struct hook *from = &service->hooks.items[i];
        struct hook hook = *from;
        size_t count = 0;

        while (from->args[count])
            count++;
        hook.name = xdup(from->name);
        hook.command = xdup(from->command);
        hook.args = xalloc((count + 1) * sizeof(*hook.args));
        for (size_t k = 0; k < count; k++)
            hook.args[k] = xdup(from->args[k]);
        vec_room(&list->items, &list->cap, list->count);
        list->items[list->count++] = hook;
    }
    return 0;
}

/* Reads the project's version, not the agent's, and follows no link. */
static int add_project_hooks(const struct review_lock *review_lock, struct hook_list *list, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int root = review_lock_open_root(review_lock, err);
    int r = root < 0 ? root : file_read(root, HOOK_FILE, HOOK_FILE_BYTES_MAX, &text);

    if (root < 0)
        return r;
    if (r == -ENOENT || r == -ENOTDIR)
        return 0;
    if (r < 0)
        return refuse_config(err_errno(err, r, "reading the project's " HOOK_FILE), err);
    r = hook_list_add_text(list, text.data, text.len, HOOK_PROJECT, HOOK_FILE, err);
    return r < 0 ? refuse_config(r, err) : 0;
}

static int add_workspace_hooks(const struct sandbox_row *row, struct hook_list *list, struct err *err)
{
    json_t *behavior = json_loads(row->behavior ? row->behavior : "", 0, NULL);
    const json_t *hooks = json_object_get(behavior, "hooks");
    int r = hooks ? hook_list_add(list, hooks, HOOK_WORKSPACE, "behavior.hooks", err) : 0;

    json_decref(behavior);
    return r < 0 ? refuse_config(r, err) : 0;
}

static int load_approval_hooks(const struct review_lock *review_lock, struct hook_list *list, struct err *err)
{
    int r = add_server_hooks(review_lock->service, list);

    if (r == 0)
        r = add_project_hooks(review_lock, list, err);
    return r < 0 ? r : add_workspace_hooks(&review_lock->row, list, err);
}

int approval_run_take_hooks(struct approval_run *a, struct err *err)
{
    const struct review_lock *review_lock = a->review_lock;
    int r;

    if (a->request->is_dry && !a->request->runs_hooks)
        return 0;
    r = load_approval_hooks(review_lock, &a->hooks, err);
    if (r < 0 || a->hooks.count == 0)
        return r;
    if (!a->request->skips_hooks)
        return hook_box_make(review_lock->service, &review_lock->row, review_lock->dir_fd, &a->box, err);
    if (!review_lock->caller->is_admin && !review_lock->service->options.allows_no_verify)
        return err_set_reason(err,
                              err_set(err, ERR_PERMISSION_DENIED, -EPERM,
                                      "only an administrator may approve without the hooks; nothing was applied"),
                              "NO_VERIFY_REFUSED");
    hook_list_done(&a->hooks);
    return 0;
}

/* ---- the hooks' input ---- */

struct hook_input {
    struct buf paths;   /* NUL-terminated each, from the sandbox's root */
    struct buf changed; /* separated by commas */
    char **env;         /* owned, like its elements; NULL-terminated */
    size_t count;
};

static void hook_input_done(struct hook_input *hook_input)
{
    for (char **one = hook_input->env; one && *one; one++)
        free(*one);
    free(hook_input->env);
    buf_done(&hook_input->paths);
    buf_done(&hook_input->changed);
}

/* A path with a comma or a newline would look like two, so it is left out of the variables; standard input has all paths. */
static bool fits_list(const char *path)
{
    for (; *path; path++)
        if (*path == ',' || (unsigned char) *path < 0x20)
            return false;
    return true;
}

static void hook_input_add_path(struct hook_input *hook_input, const char *path)
{
    hook_input->count++;
    buf_add(&hook_input->paths, path, strlen(path) + 1);
    if (!fits_list(path) || hook_input->changed.len + strlen(path) > CHANGED_BYTES_MAX)
        return;
    if (hook_input->changed.len > 0)
        buf_add_char(&hook_input->changed, ',');
    buf_add_str(&hook_input->changed, path);
}

static void hook_input_make(const struct approval_run *a, struct hook_input *ret)
{
    const struct review_approved *out = a->out;

    for (size_t i = 0; i < out->set.count; i++) {
        enum review_verdict verdict = out->verdicts[i];

        if (out->set.items[i].is_dir || (verdict != REVIEW_VERDICT_APPLIED && verdict != REVIEW_VERDICT_PARTLY))
            continue;
        hook_input_add_path(ret, out->set.items[i].scope_path);
        if (out->set.items[i].from)
            hook_input_add_path(ret, out->set.items[i].from->path);
    }
    ret->env = xalloc(6 * sizeof(*ret->env));
    ret->env[0] = xprintf("SANDBOX_ID=%s", a->review_lock->row.id);
    ret->env[1] = xprintf("SANDBOX_SCOPE_PATH=%s", a->review_lock->prefix);
    ret->env[2] = xdup("SANDBOX_MERGED_DIR=/workspace");
    ret->env[3] = xprintf("SANDBOX_CHANGE_COUNT=%zu", ret->count);
    ret->env[4] = xprintf("SANDBOX_CHANGED_FILES=%s", ret->changed.data ? ret->changed.data : "");
}

/* ---- running ---- */

static int run_approval_hooks(struct approval_run *a, struct hook_input *hook_input, struct hook_results *results,
                              struct err *err)
{
    bool stops = false;

    for (size_t i = 0; i < a->hooks.count; i++) {
        const struct hook *hook = &a->hooks.items[i];
        struct hook_call call = { .hook = hook,
                                  .env = (const char *const *) hook_input->env,
                                  .input = hook_input->paths.data,
                                  .input_len = hook_input->paths.len,
                                  .cancel_fd = a->caller->cancel_fd };
        vec_room(&results->items, &results->cap, results->count);
        struct hook_result *result = &results->items[results->count++];
        *result = (struct hook_result){
            .name = xdup(hook->name), .source = hook->source, .is_required = hook->is_required, .status = HOOK_NOT_RUN
        };
        int r = stops ? 0 : hook_box_run(&a->box, &call, result, err);
        if (r < 0)
            return r;
        stops |= hook->is_required && result->status != HOOK_PASSED;
    }
    return 0;
}

static int refuse_failed_hooks(const struct hook_results *results, struct err *err)
{
    for (size_t i = 0; i < results->count; i++) {
        const struct hook_result *result = &results->items[i];

        if (result->is_required && result->status != HOOK_PASSED)
            return err_set_reason(err,
                                  err_set(err, ERR_FAILED_PRECONDITION, -EPERM, "hook '%s' %s; nothing was applied",
                                          result->name,
                                          result->status == HOOK_TIMED_OUT ? "took too long"
                                          : result->status == HOOK_ERROR   ? "could not be run"
                                                                           : "failed"),
                                  "HOOK_FAILED");
    }
    return 0;
}

json_t *review_hooks_brief(const struct hook_results *results)
{
    json_t *list = json_array();

    for (size_t i = 0; i < results->count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:i}", "name", results->items[i].name, "source",
                                        hook_source_name(results->items[i].source), "status",
                                        hook_status_name(results->items[i].status), "exitCode", results->items[i].exit_code));
    return list;
}

/* The sandbox is unlocked meanwhile: it goes on, and others may decide about it. Only the staged tree is applied, so any
 * change is noticed. */
int approval_run_run_hooks(struct approval_run *a, struct sandbox_row *row, struct err *err)
{
    autodone(hook_input) struct hook_input hook_input = { 0 };
    struct hook_results results = { 0 };
    int r;

    hook_input_make(a, &hook_input);
    sandbox_row_done(row);
    *row = a->review_lock->row;
    a->review_lock->row = (struct sandbox_row){ 0 };
    if (a->review_lock->starts_again)
        sandbox_row_get(a->service->store, row->id, &a->review_lock->row, &(struct err){ 0 });
    review_lock_done(a->review_lock);
    r = run_approval_hooks(a, &hook_input, &results, err);
    hook_box_done(&a->box);
    hook_results_done(&a->out->hooks);
    a->out->hooks = results;
    if (r == 0)
        r = refuse_failed_hooks(&a->out->hooks, err);
    if (r == 0 || !err->reason || strcmp(err->reason, "HOOK_FAILED") != 0)
        return r;
    json_t *details = json_pack("{s:o}", "hooks", review_hooks_brief(&a->out->hooks));
    if (a->request->is_automatic)
        json_object_set_new(details, "automatic", json_true());
    sandbox_tell(a->service, a->caller, row, "sandbox_hook_failed", a->request->actor, details);
    return r;
}
