/* Applying what was reviewed, and how a request names it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "base/mem.h"
#include "service/known_keys.h"
#include "service/reviews.h"

/* ---- the choice ---- */

#define NAMES_MAX 100000

void compat_review_choice_done(struct compat_review_choice *choice)
{
    for (size_t i = 0; i < choice->choice.hunk_count; i++) {
        free(choice->ranges[i]);
        free(choice->ids[i]);
    }
    free(choice->ranges);
    free(choice->ids);
    free(choice->hunks);
    free(choice->paths);
    free(choice->file_ids);
    *choice = (struct compat_review_choice){ 0 };
}

static int choice_read_range(const json_t *given, struct selection_range *ret, struct err *err)
{
    int64_t first = 0, last = 0;
    int r = json_is_object(given) ? 0 : err_invalid(err, "a range must be an object");

    if (r == 0)
        r = compat_read(given, err, { "startLine", .number = &first, .least = 0, .most = UINT32_MAX },
                        { "endLine", .number = &last, .least = 0, .most = UINT32_MAX });
    if (r == 0 && (!json_object_get(given, "startLine") || !json_object_get(given, "endLine") || last < first))
        r = err_invalid(err, "a range needs a startLine and an endLine that is not before it");
    *ret = (struct selection_range){ (uint32_t) first, (uint32_t) last };
    return r;
}

/* Either a file id or a path. */
static int choice_read_file(const json_t *given, struct review_hunks *ret, struct err *err)
{
    int r = json_is_object(given) ? 0 : err_invalid(err, "hunks are named by objects");

    ret->file_id = ret->path = "";
    if (r == 0)
        r = compat_read(given, err, { "fileId", .text = &ret->file_id }, { "filePath", .text = &ret->path },
                        { "path", .text = &ret->path });
    if (r == 0 && !*ret->file_id == !*ret->path)
        r = err_invalid(err, "hunks need a fileId or a path, not both");
    return r;
}

static int choice_read_hunks(const json_t *given, struct compat_review_choice *ret, struct err *err)
{
    static const char *const keys[] = { "fileId", "filePath", "path", "hunkIds", "ranges", NULL };
    static const char *const range_keys[] = { "startLine", "endLine", NULL };
    size_t at = ret->choice.hunk_count++;
    struct review_hunks *hunks = &ret->hunks[at];
    const json_t *ranges = NULL;
    int r = choice_read_file(given, hunks, err);

    if (r == 0)
        r = known_keys_check(given, keys, "hunks", err);
    if (r == 0)
        r = compat_get_texts(given, "hunkIds", NAMES_MAX, &ret->ids[at], &hunks->id_count, err);
    if (r == 0)
        r = compat_get_array(given, "ranges", NAMES_MAX, &ranges, err);
    if (r < 0)
        return r;
    hunks->ids = ret->ids[at];
    ret->ranges[at] = xalloc((json_array_size(ranges) + 1) * sizeof(**ret->ranges));
    hunks->ranges = ret->ranges[at];
    for (size_t i = 0; r == 0 && i < json_array_size(ranges); i++) {
        r = choice_read_range(json_array_get(ranges, i), &ret->ranges[at][i], err);
        if (r == 0)
            r = known_keys_check(json_array_get(ranges, i), range_keys, "a range", err);
    }
    hunks->range_count = json_array_size(ranges);
    if (r == 0 && hunks->id_count + hunks->range_count == 0)
        r = err_invalid(err, "hunks need hunkIds or ranges; name the file in files to take it whole");
    return r;
}

/* One range each; those of a file are put together. */
static int choice_read_hunk_range(const json_t *given, size_t most, struct compat_review_choice *ret, struct err *err)
{
    static const char *const keys[] = { "fileId", "filePath", "path", "startLine", "endLine", NULL };
    struct review_hunks file = { 0 };
    struct selection_range range = { 0 };
    size_t at = 0;
    int r = choice_read_file(given, &file, err);

    if (r == 0)
        r = known_keys_check(given, keys, "a range", err);
    if (r == 0)
        r = choice_read_range(given, &range, err);
    if (r < 0)
        return r;
    while (at < ret->choice.hunk_count &&
           (strcmp(ret->hunks[at].file_id, file.file_id) != 0 || strcmp(ret->hunks[at].path, file.path) != 0))
        at++;
    if (at == ret->choice.hunk_count) {
        ret->hunks[ret->choice.hunk_count++] = file;
        ret->ranges[at] = xalloc(most * sizeof(**ret->ranges));
        ret->hunks[at].ranges = ret->ranges[at];
    }
    ret->ranges[at] = xgrow(ret->ranges[at], ret->hunks[at].range_count + 1, sizeof(**ret->ranges));
    ret->hunks[at].ranges = ret->ranges[at];
    ret->ranges[at][ret->hunks[at].range_count++] = range;
    return 0;
}

int compat_review_choice_take(const json_t *body, const char *paths_key, struct compat_review_choice *ret, struct err *err)
{
    const json_t *hunks = NULL, *ranges = NULL;
    struct review_choice *choice = &ret->choice;
    int r = compat_get_texts(body, paths_key, NAMES_MAX, &ret->paths, &choice->path_count, err);

    if (r == 0)
        r = compat_get_texts(body, "fileIds", NAMES_MAX, &ret->file_ids, &choice->file_id_count, err);
    if (r == 0)
        r = compat_get_array(body, "hunks", NAMES_MAX, &hunks, err);
    if (r == 0)
        r = compat_get_array(body, "hunkRanges", NAMES_MAX, &ranges, err);
    if (r < 0)
        return r;
    size_t most = json_array_size(hunks) + json_array_size(ranges) + 1;
    ret->hunks = xalloc(most * sizeof(*ret->hunks));
    ret->ranges = xalloc(most * sizeof(*ret->ranges));
    ret->ids = xalloc(most * sizeof(*ret->ids));
    for (size_t i = 0; r == 0 && i < json_array_size(hunks); i++)
        r = choice_read_hunks(json_array_get(hunks, i), ret, err);
    for (size_t i = 0; r == 0 && i < json_array_size(ranges); i++)
        r = choice_read_hunk_range(json_array_get(ranges, i), 1, ret, err);
    choice->paths = ret->paths;
    choice->file_ids = ret->file_ids;
    choice->hunks = ret->hunks;
    return r;
}

#define HASHES_MAX 100000

/* ---- the request ---- */

static int approve_read_mode(const json_t *body, struct compat_review_choice *choice, bool needs_choice, struct err *err)
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

static int approve_read_acknowledge(const json_t *body, struct review_approval *ret, const char ***words, struct err *err)
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

static int approve_read_request(struct ws *ws, bool needs_choice, struct compat_review_choice *choice, const char ***words,
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
        r = approve_read_mode(ws->body, choice, needs_choice, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(flags); i++)
        r = compat_get_bool(ws->body, flags[i].key, flags[i].ret, err);
    if (r == 0)
        r = approve_read_acknowledge(ws->body, ret, words, err);
    if (r == 0)
        r = compat_get_text(ws->body, "diffHash", 0, &ret->diff_hash, err);
    if (r == 0)
        r = compat_get_pairs(ws->body, "fileHashes", HASHES_MAX, &ret->hashes, err);
    if (r == 0)
        r = compat_read(ws->body, err, { "actor", .text = &ret->actor },
                        { "commitMsg", .text = &ret->message, .text_max = (size_t) 64 << 10 },
                        { "commitMessage", .text = &ret->message, .text_max = (size_t) 64 << 10 });
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

static json_t *make_approved_file(const struct review_approved *approved, size_t i)
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

static json_t *make_approved_files(const struct review_approved *approved, bool only_wrong)
{
    json_t *list = json_array();

    for (size_t i = 0; approved->verdicts && i < approved->set.count; i++) {
        bool is_wrong = approved->verdicts[i] >= REVIEW_VERDICT_CONFLICT;
        if (!approved->set.items[i].is_dir && (is_wrong || !only_wrong) &&
            (only_wrong || approved->verdicts[i] != REVIEW_VERDICT_LEFT))
            json_array_append_new(list, make_approved_file(approved, i));
    }
    return list;
}

static json_t *make_approve_hooks(const struct hook_results *results)
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

static int approve_answer(struct ws *ws, const struct review_approval *request, const struct review_approved *approved)
{
    bool is_partial = approved->remaining > 0;
    json_t *body = json_pack(
        "{s:b, s:I, s:i, s:I, s:b, s:o, s:s, s:I}", "success", 1, "applied", (json_int_t) approved->applied, "failed", 0,
        "remaining", (json_int_t) approved->remaining, "isPartial", is_partial, "files", make_approved_files(approved, false),
        "status", sandbox_state_name(sandbox_row_state(&approved->row)), "version", (json_int_t) approved->row.row_version);

    compat_set_time(body, "appliedAt", approved->applied_ns);
    compat_set_text(body, "approvalId", approved->approve.id);
    compat_set_text(body, "diffHash", approved->hash);
    compat_set_text(body, "commitHash", approved->commit_hash);
    compat_set_text(body, "commitError", approved->commit_error);
    compat_set_text(body, "note", approved->note);
    if (request->is_dry)
        json_object_set_new(body, "dryRun", json_true());
    if (approved->hooks.count > 0)
        json_object_set_new(body, "hooks", make_approve_hooks(&approved->hooks));
    return compat_answer(ws, 200, body);
}

static int approve_explain(struct ws *ws, int r, const struct review_approved *approved, const struct err *err)
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
        compat_detail(ws, "files", make_approved_files(approved, true));
        if (approved->hooks.count > 0)
            compat_detail(ws, "hooks", make_approve_hooks(&approved->hooks));
        if (*approved->hash)
            compat_detail(ws, "diffHash", json_string(approved->hash));
        return r;
    }
    return compat_explain(ws, r, err, NULL);
}

static int approve_by_request(struct ws *ws, bool needs_choice, struct err *err)
{
    autodone(compat_review_choice) struct compat_review_choice choice = { 0 };
    autodone(review_approved) struct review_approved approved = REVIEW_APPROVED_NONE;
    autofree const char **words = NULL;
    struct review_approval request = { 0 };
    int r = approve_read_request(ws, needs_choice, &choice, &words, &request, err);

    if (r == 0)
        r = reviews_approve(ws->service, &ws->caller, ws->id, &request, &approved, err);
    return r < 0 ? approve_explain(ws, r, &approved, err) : approve_answer(ws, &request, &approved);
}

int compat_approve(struct ws *ws, struct err *err)
{
    return approve_by_request(ws, false, err);
}

int compat_partial_approve(struct ws *ws, struct err *err)
{
    return approve_by_request(ws, true, err);
}
