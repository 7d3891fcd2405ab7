/* Applying what was reviewed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace_handlers.h"
#include "api/compat_workspace_json.h"
#include "api/compat_workspace_object.h"
#include "api/compat_workspace_review_choice.h"
#include "api/compat_workspace_review_file.h"
#include "base/mem.h"
#include "service/reviews.h"

#define HASHES_MAX 100000

const char *const compat_approve_keys[] = { "mode",
                                            "files",
                                            "fileIds",
                                            "hunks",
                                            "hunkRanges",
                                            "actor",
                                            "commitMessage",
                                            "commitMsg",
                                            "createCommit",
                                            "force",
                                            "overrideAcceptance",
                                            "acknowledge",
                                            "dryRun",
                                            "diffHash",
                                            "fileHashes",
                                            "version",
                                            "runHooks",
                                            "noVerify",
                                            "stop",
                                            "sandboxId",
                                            NULL };

/* ---- the request ---- */

static int take_mode(const json_t *body, struct compat_review_choice *choice, bool needs_choice, struct err *err)
{
    const char *mode = "";
    bool has_hunks = choice->choice.hunk_count > 0, has_files = choice->choice.path_count + choice->choice.file_id_count > 0;
    int r = compat_get_text(body, "mode", 0, &mode, err);

    if (r < 0)
        return r;
    if (*mode && strcmp(mode, "all") != 0 && strcmp(mode, "files") != 0 && strcmp(mode, "hunks") != 0)
        return err_reject(err, -EINVAL, mode, "is no mode; there are all, files, hunks");
    if (strcmp(mode, "all") == 0 && (has_files || has_hunks))
        return err_invalid(err, "mode is all, and files or hunks are named");
    if ((strcmp(mode, "files") == 0 || needs_choice) && !has_files && !has_hunks)
        return err_invalid(err, "no files are named: files, fileIds or hunks is needed");
    if (strcmp(mode, "hunks") == 0 && !has_hunks)
        return err_invalid(err, "mode is hunks, and none are named");
    /* An empty list is not all. */
    if (!has_files && !has_hunks &&
        (json_object_get(body, "files") || json_object_get(body, "fileIds") || json_object_get(body, "hunks") ||
         json_object_get(body, "hunkRanges")))
        return err_invalid(err, "the list of what to approve is empty; leave it out to approve all");
    choice->choice.only_hunks = strcmp(mode, "hunks") == 0;
    return 0;
}

static int take_acknowledge(const json_t *body, struct review_approval *ret, const char ***words, struct err *err)
{
    const json_t *given = json_object_get(body, "acknowledge");
    int r = 0;

    if (json_is_boolean(given))
        ret->acknowledges_all = json_is_true(given);
    else
        r = compat_get_texts(body, "acknowledge", 0, words, &ret->acknowledged_count, err);
    ret->acknowledged = *words;
    return r;
}

static int take_request(struct ws *ws, bool needs_choice, struct compat_review_choice *choice, const char ***words,
                        struct review_approval *ret, struct err *err)
{
    const struct {
        const char *key;
        bool *ret;
    } flags[] = { { "createCommit", &ret->creates_commit },
                  { "force", &ret->is_forced },
                  { "overrideAcceptance", &ret->overrides_acceptance },
                  { "dryRun", &ret->is_dry },
                  { "runHooks", &ret->runs_hooks },
                  { "noVerify", &ret->skips_hooks },
                  { "stop", &ret->may_stop } };
    int r = compat_review_choice_take(ws->body, "files", choice, err);

    ret->diff_hash = ret->actor = ret->message = "";
    if (r == 0)
        r = take_mode(ws->body, choice, needs_choice, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(flags); i++)
        r = compat_get_bool(ws->body, flags[i].key, flags[i].ret, err);
    if (r == 0)
        r = take_acknowledge(ws->body, ret, words, err);
    if (r == 0)
        r = compat_get_text(ws->body, "diffHash", 0, &ret->diff_hash, err);
    if (r == 0)
        r = compat_get_pairs(ws->body, "fileHashes", HASHES_MAX, &ret->hashes, err);
    if (r == 0)
        r = compat_get_text(ws->body, "actor", 0, &ret->actor, err);
    if (r == 0)
        r = compat_get_text(ws->body, "commitMsg", (size_t) 64 << 10, &ret->message, err);
    if (r == 0)
        r = compat_get_text(ws->body, "commitMessage", (size_t) 64 << 10, &ret->message, err);
    if (r == 0)
        r = compat_get_version(ws, &ret->version, err);
    ret->choice = choice->choice;
    if (r == 0 && ret->runs_hooks && !ret->is_dry)
        r = err_invalid(err, "runHooks is for a dry run: otherwise they are always run");
    if (r == 0 && ret->runs_hooks && ret->skips_hooks)
        r = err_invalid(err, "runHooks and noVerify contradict each other");
    return r;
}

/* ---- the answer ---- */

static json_t *file_of(const struct review_approved *approved, size_t i)
{
    const struct file_change *change = &approved->set.items[i];
    const struct approve_file *file = approved->files[i];
    struct acceptance_verdict verdict = decision_check_acceptance(&approved->acceptance, change);
    json_t *one = json_pack("{s:s, s:s}", "status", review_verdict_name(approved->verdicts[i]), "changeType",
                            file_change_kind_name(change->kind));
    size_t prefix_len = strlen(change->path) - strlen(change->scope_path);
    autofree char *prefix = xdupn(change->path, prefix_len > 0 ? prefix_len - 1 : 0);

    compat_review_set_paths(one, approved->row.id, prefix, change->scope_path);
    if (verdict.status != ACCEPTANCE_ACCEPTED)
        json_object_set_new(one, "acceptance", json_string(acceptance_status_name(verdict.status)));
    if (file && file->outcome == APPROVE_UNACKNOWLEDGED)
        json_object_set_new(one, "acknowledge",
                            json_pack("{s:s, s:s}", "reason", acknowledge_name(file->acknowledge), "text",
                                      acknowledge_text(file->acknowledge)));
    if (file && file->outcome == APPROVE_CONFLICT) {
        compat_set_text(one, "reason", file->reason);
        json_object_set_new(one, "hunks", compat_review_conflict(&file->merge));
    }
    if (file && file->state == RECONCILE_MERGES)
        json_object_set_new(one, "merged", json_true());
    if (file && file->hunk_count > 0) {
        json_object_set_new(one, "hunksApplied", json_integer((json_int_t) file->hunks_taken));
        json_object_set_new(one, "hunksTotal", json_integer((json_int_t) file->hunk_count));
    }
    return one;
}

static json_t *files_of(const struct review_approved *approved, bool only_wrong)
{
    json_t *list = json_array();

    for (size_t i = 0; approved->verdicts && i < approved->set.count; i++) {
        bool is_wrong = approved->verdicts[i] >= REVIEW_VERDICT_CONFLICT;
        if (!approved->set.items[i].is_dir && (is_wrong || !only_wrong) &&
            (only_wrong || approved->verdicts[i] != REVIEW_VERDICT_LEFT))
            json_array_append_new(list, file_of(approved, i));
    }
    return list;
}

static json_t *hooks_of(const struct hook_results *results)
{
    json_t *list = json_array();

    for (size_t i = 0; i < results->count; i++) {
        const struct hook_result *result = &results->items[i];
        json_t *one = json_pack("{s:s, s:s, s:b, s:s}", "name", result->name, "source", hook_source_name(result->source),
                                "required", result->is_required, "status", hook_status_name(result->status));

        if (result->status != HOOK_NOT_RUN) {
            json_object_set_new(one, "exitCode", json_integer(result->exit_code));
            json_object_set_new(one, "durationMs", json_integer(result->duration_ns / 1000000));
            json_object_set_new(one, "output", compat_text(result->output.data ? result->output.data : "", result->output.len));
            json_object_set_new(one, "outputTruncated", json_boolean(result->is_cut));
        }
        json_array_append_new(list, one);
    }
    return list;
}

static int answer(struct ws *ws, const struct review_approval *request, const struct review_approved *approved)
{
    bool is_partial = approved->remaining > 0;
    json_t *body = json_pack(
        "{s:b, s:I, s:i, s:I, s:b, s:o, s:s, s:I}", "success", 1, "applied", (json_int_t) approved->applied, "failed", 0,
        "remaining", (json_int_t) approved->remaining, "isPartial", is_partial, "files", files_of(approved, false), "status",
        sandbox_state_name(sandbox_row_state(&approved->row)), "version", (json_int_t) approved->row.row_version);

    compat_set_time(body, "appliedAt", approved->applied_ns);
    compat_set_text(body, "approvalId", approved->approve.id);
    compat_set_text(body, "diffHash", approved->hash);
    compat_set_text(body, "commitHash", approved->commit_hash);
    compat_set_text(body, "commitError", approved->commit_error);
    compat_set_text(body, "note", approved->note);
    if (request->is_dry)
        json_object_set_new(body, "dryRun", json_true());
    if (approved->hooks.count > 0)
        json_object_set_new(body, "hooks", hooks_of(&approved->hooks));
    return compat_answer(ws, 200, body);
}

static int explain(struct ws *ws, int r, const struct review_approved *approved, const struct err *err)
{
    static const struct {
        const char *reason;
        int status;
        const char *hint;
    } known[] = {
        { "DIFF_STALE", 409, "get the diff again, look at what has changed, and approve that; or send force" },
        { "DIFF_NOT_SERVED", 409, "get the diff first: GET /api/v1/sandboxes/{id}/diff; or send force" },
        { "CONFLICTS", 409,
          "GET .../conflicts tells more, POST .../rebase merges what can be merged; or leave these files out, or send force" },
        { "HUNK_UNKNOWN", 409, "get the diff again: the file has other hunks now" },
        { "NOT_ACCEPTED", 400, "leave these files out, or send overrideAcceptance" },
        { "UNACKNOWLEDGED", 422, "look at these files, then send acknowledge: true, or the list of their paths or reasons" },
        { "FILE_UNKNOWN", 404, "GET /api/v1/sandboxes/{id}/diff lists what has changed" },
        { "NO_REPOSITORY", 422, "approve without createCommit" },
        { "FOREIGN_CHANGES", 409, "commit or undo your own changes in these files first; or approve without createCommit" },
        { "HOOK_FAILED", 422, "details.hooks has what they printed; mend it, and approve again" },
        { "HOOKS_UNREADABLE", 422, "mend the hooks; or an administrator may send noVerify" },
        { "NO_VERIFY_REFUSED", 403, "approve with the hooks, or ask an administrator" },
    };
    const char *reason = err->reason ? err->reason : "";

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i].reason, reason) != 0)
            continue;
        ws->status = known[i].status;
        compat_hint(ws, "%s", known[i].hint);
        compat_detail(ws, "reason", json_string(reason));
        compat_detail(ws, "files", files_of(approved, true));
        if (approved->hooks.count > 0)
            compat_detail(ws, "hooks", hooks_of(&approved->hooks));
        if (*approved->hash)
            compat_detail(ws, "diffHash", json_string(approved->hash));
        return r;
    }
    return compat_explain(ws, r, err, NULL);
}

static int approve(struct ws *ws, bool needs_choice, struct err *err)
{
    autodone(compat_review_choice) struct compat_review_choice choice = { 0 };
    autodone(review_approved) struct review_approved approved = REVIEW_APPROVED_NONE;
    autofree const char **words = NULL;
    struct review_approval request = { 0 };
    int r = take_request(ws, needs_choice, &choice, &words, &request, err);

    if (r == 0)
        r = reviews_approve(ws->service, &ws->caller, ws->id, &request, &approved, err);
    return r < 0 ? explain(ws, r, &approved, err) : answer(ws, &request, &approved);
}

int compat_approve(struct ws *ws, struct err *err)
{
    return approve(ws, false, err);
}

int compat_partial_approve(struct ws *ws, struct err *err)
{
    return approve(ws, true, err);
}
