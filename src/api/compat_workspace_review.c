/* Deciding about a workspace otherwise than by approving. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "base/clock.h"
#include "base/mem.h"
#include "service/reviews.h"

static int review_read_actor(struct ws *ws, const char **actor, int64_t *version, struct err *err)
{
    int r = compat_get_text(ws->body, "actor", 0, actor, err);

    return r < 0 ? r : compat_get_version(ws, version, err);
}

static int review_read_decision(struct ws *ws, struct review_decision *ret, struct err *err)
{
    int r = review_read_actor(ws, &ret->actor, &ret->version, err);

    return r < 0 ? r : compat_get_bool(ws->body, "stop", &ret->may_stop, err);
}

int compat_reject(struct ws *ws, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    const char *actor = "";
    int64_t version = 0;
    int r = review_read_actor(ws, &actor, &version, err);

    if (r == 0)
        r = reviews_reject(ws->service, &ws->caller, ws->id, actor, version, &row, err);
    return r < 0 ? compat_explain(ws, r, err, NULL) : compat_answer_object(ws, 200, &row);
}

int compat_finish(struct ws *ws, struct err *err)
{
    autodone(review_finish) struct review_finish finish = { .decision = "none" };
    const char *outcome = "completed", *actor = "";
    enum behavior_event event;
    int64_t version = 0;
    int r = compat_get_text(ws->body, "outcome", 0, &outcome, err);

    if (r == 0 && !review_outcome_parse(outcome, &event))
        r = err_reject(err, -EINVAL, outcome, "is no outcome; there are completed, failed, cancelled");
    if (r == 0)
        r = review_read_actor(ws, &actor, &version, err);
    if (r == 0)
        r = reviews_finish(ws->service, &ws->caller, ws->id, event, actor, version, &finish, err);
    if (r < 0)
        return compat_explain(ws, r, err, NULL);
    json_t *body =
        json_pack("{s:b, s:s, s:s, s:s, s:I}", "success", 1, "outcome", outcome, "decision", finish.decision, "status",
                  sandbox_state_name(sandbox_row_state(&finish.row)), "version", (json_int_t) finish.row.row_version);
    if (*finish.reason)
        json_object_set_new(body, "reason", compat_text(finish.reason, strlen(finish.reason)));
    if (strcmp(finish.decision, "approved") == 0) {
        compat_set_text(body, "approvalId", finish.approval_id);
        json_object_set_new(body, "applied", json_integer((json_int_t) finish.applied));
    }
    return compat_answer(ws, 200, body);
}

/* ---- discard ---- */

static json_t *make_text_list(char *const *texts, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, compat_text(texts[i], strlen(texts[i])));
    return list;
}

int compat_discard(struct ws *ws, struct err *err)
{
    autodone(compat_review_choice) struct compat_review_choice choice = { 0 };
    autodone(review_discarded) struct review_discarded discarded = { 0 };
    struct review_decision decision = { .actor = "" };
    int r = compat_review_choice_take(ws->body, json_object_get(ws->body, "filePaths") ? "filePaths" : "files", &choice, err);

    if (r == 0 && json_object_get(ws->body, "filePaths") && json_object_get(ws->body, "files"))
        r = err_invalid(err, "filePaths and files are the same; send one of them");
    if (r == 0 && choice.choice.path_count + choice.choice.file_id_count == 0)
        r = err_invalid(err, "no files are named: fileIds or filePaths is needed");
    if (r == 0)
        r = review_read_decision(ws, &decision, err);
    if (r == 0)
        r = reviews_discard(ws->service, &ws->caller, ws->id, &choice.choice, &decision, &discarded, err);
    if (r < 0)
        return compat_explain(ws, r, err, NULL);
    json_t *body = json_pack("{s:b, s:I, s:I, s:o}", "success", 1, "discarded", (json_int_t) discarded.file_count, "remaining",
                             (json_int_t) discarded.remaining, "files", make_text_list(discarded.files, discarded.file_count));
    if (discarded.unknown_count > 0)
        json_object_set_new(body, "notFound", make_text_list(discarded.unknown, discarded.unknown_count));
    return compat_answer(ws, 200, body);
}

/* ---- conflicts and rebase ---- */

static void review_append_path(json_t *list, const char *prefix, const char *scope_path)
{
    autofree char *path = *prefix ? xprintf("%s/%s", prefix, scope_path) : xdup(scope_path);

    json_array_append_new(list, compat_text(path, strlen(path)));
}

static json_t *make_compared_file(const char *id, const char *prefix, const struct edit *edit, const char *state,
                                  const char *reason, const struct threeway *merge)
{
    json_t *one = json_pack("{s:s}", "state", state);

    compat_review_set_paths(one, id, prefix, edit->path);
    compat_set_text(one, "reason", reason);
    if (merge && merge->hunk_count > 0)
        json_object_set_new(one, "hunks", compat_review_conflict(merge));
    return one;
}

int compat_conflicts(struct ws *ws, struct err *err)
{
    autodone(review_conflict_report) struct review_conflict_report found = REVIEW_CONFLICT_REPORT_NONE;
    int r = reviews_conflicts(ws->service, &ws->caller, ws->id, &found, err);

    if (r < 0)
        return compat_explain(ws, r, err, NULL);
    json_t *moved = json_array(), *changed = json_array(), *conflicting = json_array(), *files = json_array();
    for (size_t i = 0; i < found.report.edits.count; i++) {
        const struct conflict_file *file = &found.report.files[i];

        if (!edit_is_file(file->edit) && file->state != RECONCILE_CONFLICT)
            continue;
        review_append_path(changed, found.prefix, file->edit->path);
        if (file->has_moved)
            review_append_path(moved, found.prefix, file->edit->path);
        if (file->state == RECONCILE_CONFLICT)
            review_append_path(conflicting, found.prefix, file->edit->path);
        if (file->has_moved || file->state == RECONCILE_CONFLICT)
            json_array_append_new(files, make_compared_file(ws->id, found.prefix, file->edit, reconcile_state_name(file->state),
                                                            file->reason, &file->merge));
    }
    const char *base = found.row.base_commit ? found.row.base_commit : "";
    json_t *body = json_pack("{s:b, s:b, s:o, s:o, s:o, s:o}", "hasConflict", found.report.conflict_count > 0, "headMoved",
                             strcmp(base, found.head) != 0, "repoChangedFiles", moved, "sandboxChangedFiles", changed,
                             "conflictingFiles", conflicting, "files", files);
    compat_set_text(body, "baseCommitHash", base);
    compat_set_text(body, "currentHash", found.head);
    compat_set_time(body, "checkedAt", clock_wall_ns());
    return compat_answer(ws, 200, body);
}

static json_t *make_rebase_answer(struct ws *ws, const struct review_rebased *rebased, const char *strategy)
{
    json_t *moved = json_array(), *conflicting = json_array(), *files = json_array();

    for (size_t i = 0; i < rebased->rebase.edits.count; i++) {
        const struct rebase_file *file = &rebased->rebase.files[i];

        if (file->outcome == REBASE_UNMOVED)
            continue;
        review_append_path(moved, rebased->prefix, file->edit->path);
        if (file->outcome == REBASE_CONFLICT)
            review_append_path(conflicting, rebased->prefix, file->edit->path);
        json_array_append_new(files, make_compared_file(ws->id, rebased->prefix, file->edit, rebase_outcome_name(file->outcome),
                                                        file->reason, &file->merge));
    }
    json_t *body = json_pack("{s:b, s:s, s:o, s:o, s:o}", "success", rebased->rebase.conflict_count == 0, "strategy", strategy,
                             "repoChangedFiles", moved, "conflictingFiles", conflicting, "files", files);
    compat_set_text(body, "previousBaseHash", rebased->old_head);
    compat_set_text(body, "newBaseHash", rebased->new_head);
    compat_set_time(body, "rebasedAt", clock_wall_ns());
    return body;
}

int compat_rebase(struct ws *ws, struct err *err)
{
    autodone(review_rebased) struct review_rebased rebased = REVIEW_REBASED_NONE;
    enum rebase_strategy strategy = REBASE_REGENERATE;
    const char *name = "regenerate";
    struct review_decision decision = { .actor = "" };
    int r = compat_get_text(ws->body, "strategy", 0, &name, err);

    if (r == 0)
        r = rebase_parse_strategy(name, &strategy, err);
    if (r == 0)
        r = review_read_decision(ws, &decision, err);
    if (r == 0)
        r = reviews_rebase(ws->service, &ws->caller, ws->id, strategy, &decision, &rebased, err);
    if (r < 0)
        return compat_explain(ws, r, err, NULL);
    return compat_answer(ws, 200, make_rebase_answer(ws, &rebased, name));
}

/* ---- undo ---- */

int compat_undo(struct ws *ws, struct err *err)
{
    autodone(review_undone) struct review_undone undone = { .undo = UNDO_NONE };
    const char *approval_id = "";
    struct review_decision decision = { .actor = "" };
    bool is_dry = false;
    int r = compat_read(ws->body, err, { "approvalId", .text = &approval_id }, { "dryRun", .flag = &is_dry });

    if (r == 0)
        r = review_read_decision(ws, &decision, err);
    if (r == 0)
        r = reviews_undo(ws->service, &ws->caller, ws->id, approval_id, is_dry, &decision, &undone, err);
    if (r < 0) {
        compat_hint(ws, "approvalId is in the answer to an approval; without one the last is meant");
        return r == -ESTALE || r == -EBUSY ? compat_explain(ws, r, err, NULL) : r;
    }
    if (r > 0) {
        json_t *moved = json_array();
        for (size_t i = 0; i < undone.undo.moved_count; i++)
            review_append_path(moved, undone.prefix, undone.undo.moved[i]);
        compat_detail(ws, "changedSince", moved);
        compat_hint(ws, "what was applied has been changed since; nothing was undone");
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "%zu paths have changed since the approval",
                                      undone.undo.moved_count),
                              "PROJECT_MOVED");
    }
    json_t *body = json_pack("{s:b, s:s, s:I, s:s}", "success", 1, "approvalId", undone.undoes, "undone",
                             (json_int_t) (is_dry ? undone.path_count : undone.undo.done_count), "status",
                             sandbox_state_name(sandbox_row_state(&undone.row)));
    compat_set_text(body, "undoId", undone.undo.id);
    compat_set_text(body, "note", undone.note);
    if (!is_dry && !*undone.note && sandbox_row_state(&undone.row) == SANDBOX_STATE_APPROVED)
        json_object_set_new(
            body, "note",
            json_string("another sandbox has reserved its paths; POST .../restore reopens it when they are free"));
    if (is_dry)
        json_object_set_new(body, "dryRun", json_true());
    return compat_answer(ws, 200, body);
}
