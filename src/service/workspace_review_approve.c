#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/workspace_commit.h"
#include "service/workspace_commit_forecast.h"
#include "service/workspace_review_int.h"

#define BIT(name) WORKSPACE_STATUS_BIT(WORKSPACE_STATUS_##name)
#define BUSY_TRIES 100
#define BUSY_WAIT_NS 50000000L

const char *workspace_verdict_name(enum workspace_verdict verdict)
{
    static const char *const names[] = { "pending",  "skipped", "applied",   "partly",       "unchanged",
                                         "conflict", "stale",   "not_shown", "not_accepted", "unacknowledged" };

    return names[verdict];
}

void workspace_approved_done(struct workspace_approved *approved)
{
    workspace_row_done(&approved->row);
    free(approved->verdicts);
    free(approved->files);
    approve_done(&approved->approve);
    acceptance_done(&approved->acceptance);
    change_set_done(&approved->set);
    hook_results_done(&approved->hooks);
    *approved = WORKSPACE_APPROVED_NONE;
}

/* ---- running ---- */

static const struct approve_file *file_of(const struct approve *approve, const char *path)
{
    size_t low = 0, high = approve->edits.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(approve->edits.items[middle].path, path);
        if (order == 0)
            return &approve->files[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static enum workspace_verdict verdict_of(enum approve_outcome outcome)
{
    switch (outcome) {
    case APPROVE_WHOLE:
        return WORKSPACE_VERDICT_APPLIED;
    case APPROVE_PARTLY:
        return WORKSPACE_VERDICT_PARTLY;
    case APPROVE_NOTHING:
        return WORKSPACE_VERDICT_NOTHING;
    case APPROVE_CONFLICT:
        return WORKSPACE_VERDICT_CONFLICT;
    case APPROVE_UNSHOWN:
        return WORKSPACE_VERDICT_UNSHOWN;
    case APPROVE_UNACKNOWLEDGED:
        return WORKSPACE_VERDICT_UNACKNOWLEDGED;
    case APPROVE_UNACCEPTED:
        return WORKSPACE_VERDICT_REFUSED;
    default:
        return WORKSPACE_VERDICT_STALE;
    }
}

/* Of the two edits of a rename the one that went less well counts. */
static void judge_one(struct approving *a, size_t i)
{
    struct workspace_approved *out = a->out;
    const struct file_change *change = &out->set.items[i];
    const struct approve_file *file = file_of(&out->approve, change->scope_path),
                              *from = change->from ? file_of(&out->approve, change->from->path) : NULL;

    if (from && (!file || (from->outcome >= APPROVE_CONFLICT && file->outcome < APPROVE_CONFLICT)))
        file = from;
    out->files[i] = file;
    out->verdicts[i] = file ? verdict_of(file->outcome) : WORKSPACE_VERDICT_NOTHING;
    /* No hunk of it was chosen. */
    if (a->chosen.items[i] == CHOOSING_HUNKS && file && file->outcome == APPROVE_NOTHING &&
        file->hunks_taken < file->hunk_count)
        out->verdicts[i] = WORKSPACE_VERDICT_LEFT;
}

static void judge(struct approving *a)
{
    struct workspace_approved *out = a->out;

    out->applied = out->remaining = 0;
    a->ends = true;
    for (size_t i = 0; out->approve.files && i < out->set.count; i++)
        if (a->chosen.items[i] != CHOOSING_NOT)
            judge_one(a, i);
    for (size_t i = 0; i < out->set.count; i++) {
        enum workspace_verdict verdict = out->verdicts[i];
        bool is_done = verdict == WORKSPACE_VERDICT_APPLIED || verdict == WORKSPACE_VERDICT_NOTHING;

        a->ends &= is_done;
        if (out->set.items[i].is_dir)
            continue;
        out->remaining += !is_done;
        out->applied += verdict == WORKSPACE_VERDICT_APPLIED || verdict == WORKSPACE_VERDICT_PARTLY;
    }
}

/* Somebody else may be writing to the same project for a moment. */
static int run_patiently(const struct approving *a, const struct approve_options *options, struct approve *ret, struct err *err)
{
    int r = -EBUSY;

    for (int i = 0; i < BUSY_TRIES && r == -EBUSY; i++) {
        if (i > 0)
            nanosleep(&(struct timespec){ .tv_nsec = BUSY_WAIT_NS }, NULL);
        *err = ERR_NONE;
        approve_done(ret);
        r = approve_run(a->still->delta_path, &a->decision.given, options, ret, err);
    }
    if (r == -EBUSY)
        err->code = ERR_ABORTED;
    return r;
}

/* What is refused before anything is reconciled leaves the rest undecided. */
static void judge_refused(struct approving *a)
{
    struct workspace_approved *out = a->out;

    for (size_t i = 0; i < out->set.count; i++) {
        const struct file_change *change = &out->set.items[i];
        const struct approve_file *file = file_of(&out->approve, change->scope_path),
                                  *from = change->from ? file_of(&out->approve, change->from->path) : NULL;
        if (from && (!file || file->outcome < APPROVE_CONFLICT))
            file = from;
        if (!file || file->outcome < APPROVE_CONFLICT)
            continue;
        out->files[i] = file;
        out->verdicts[i] = verdict_of(file->outcome);
    }
}

static int run(struct approving *a, bool is_dry, struct err *err)
{
    struct approve *approve = &a->out->approve;
    struct approve_options options = {
        .selection = a->chosen.selection.file_count ? &a->chosen.selection : NULL,
        .is_forced = a->request->is_forced,
        .is_dry = is_dry,
        .follow_up = &a->follow_up,
        .is_held = still_is_locked(a->still),
        .is_dropping = !a->ends && still_can_drop(a->still),
        .staged_tree_path = is_dry && !a->was_tried ? a->box.staged_path : NULL,
    };
    int r;

    a->decision.given.hooks = a->was_tried ? DECISION_HOOKS_TRIED : DECISION_HOOKS_WAIVED;
    a->decision.given.tried = a->tried;
    r = run_patiently(a, &options, approve, err);
    if (r == -ESTALE && a->was_tried)
        return err_set_reason(
            err, err_set(err, ERR_ABORTED, r, "something was changed while the hooks ran; nothing was applied"), "DIFF_STALE");
    if (r > 0 && approve->unaccepted_count + approve->unacknowledged_count > 0)
        judge_refused(a);
    else if (r >= 0)
        judge(a);
    return r > 0 ? approving_tell_refused(a, is_dry, err) : r;
}

/* Nothing may change from here on. If it could until now, because it was not held or ends with this approval, what was written meanwhile
 * would be applied unseen, or be left behind. */
static int calm(struct approving *a, struct err *err)
{
    autodone(change_set) struct change_set now = CHANGE_SET_EMPTY;
    struct change_set_options options = { .prefix = a->still->prefix };
    bool could_change = a->still->row.status == WORKSPACE_STATUS_ACTIVE && (a->ends || !still_is_calm(a->still));
    char hash[CHANGE_SET_HASH_MAX];
    int r = a->ends ? still_halt(a->still, err) : still_hold(a->still, err);

    if (r < 0 || !could_change || (a->request->is_forced && a->chosen.selection.file_count == 0))
        return r;
    r = change_set_load(a->still->delta_path, &options, &now, err);
    if (r == 0)
        r = change_set_hash(&now, hash, err);
    if (r < 0 || change_set_hash_is(hash, a->out->hash, true))
        return r;
    return err_set_reason(err,
                          err_set(err, ERR_ABORTED, -ESTALE,
                                  "the agent changed something until it was stopped; nothing was applied%s",
                                  a->ends ? ", and it is stopped now" : ""),
                          "DIFF_STALE");
}

/* It has landed, and the sandbox still shows it as its own: that is told. Where files come from is known all the same, so they can be committed. */
static int land_half(struct approving *a, const char *approval_id, const struct err *why, char ***ret_ids)
{
    struct workspace_approved *out = a->out;
    struct err err = ERR_NONE;
    int r = review_record_note(a->still, approval_id, ret_ids, &err);

    snprintf(out->note, sizeof(out->note),
             "all is applied, but not yet taken out of the sandbox, which is tried again when it is next looked at: %s",
             why->text);
    log_warn("what was applied is not taken out of its sandbox yet", LOG_STR("sandbox_id", a->still->row.id),
             LOG_STR("error", why->text));
    if (r < 0 && a->request->creates_commit)
        snprintf(out->commit_error, sizeof(out->commit_error), "what was applied could not be noted, commit it later: %s",
                 err.text);
    return 0;
}

/* It has landed, and only the directories of project and sandbox say so yet. Whoever finishes it tells of it, too. */
static int land_unsaid(struct approving *a, const struct err *why)
{
    struct workspace_approved *out = a->out;

    a->is_unsaid = true;
    snprintf(out->note, sizeof(out->note), "all is applied, but that could not be noted yet, which is tried again: %s",
             why->text);
    review_record_left(a->still, why);
    if (a->request->creates_commit)
        snprintf(out->commit_error, sizeof(out->commit_error), "what was applied could not be noted, commit it later: %s",
                 why->text);
    return 0;
}

/* After the landing nothing makes it undone: what fails then is in the record, and done by the next one who looks. */
static int land(struct approving *a, char ***ret_ids, struct err *err)
{
    const struct review_follow_up what = { a->request->actor, a->request->is_automatic, a->ends };
    const char *approval_id = a->out->approve.id;
    struct err later = ERR_NONE;
    int r = calm(a, err);

    if (r < 0)
        return r;
    review_follow_up_write(a->still, &what, a->out, &a->follow_up);
    r = run(a, false, err);
    if (r < 0)
        return r;
    a->out->applied_ns = clock_wall_ns();
    if (!a->ends)
        r = still_release_taken(a->still, &a->out->approve, &later);
    if (r < 0)
        return land_half(a, approval_id, &later, ret_ids);
    if (*approval_id)
        return review_record_finish(a->still, approval_id, ret_ids, &later) < 0 ? land_unsaid(a, &later) : 0;
    /* The project has it all already: nothing landed, and there is no record. */
    workspaces_totals(a->still->service)->patches++;
    return a->ends ? review_end(a->still, err) : 0;
}

static void tell(struct approving *a)
{
    struct workspace_approved *out = a->out;
    json_t *details = json_pack("{s:s, s:I, s:I, s:s}", "approvalId", out->approve.id, "applied", (json_int_t) out->applied,
                                "remaining", (json_int_t) out->remaining, "diffHash", out->hash);

    if (a->request->is_forced)
        json_object_set_new(details, "force", json_true());
    if (a->request->overrides_acceptance)
        json_object_set_new(details, "overrideAcceptance", json_true());
    if (a->request->acknowledges_all || a->request->acknowledged_count > 0)
        json_object_set_new(details, "acknowledged", json_true());
    if (a->request->skips_hooks)
        json_object_set_new(details, "noVerify", json_true());
    if (out->hooks.count > 0)
        json_object_set_new(details, "hooks", workspace_hooks_brief(&out->hooks));
    if (a->request->is_automatic)
        json_object_set_new(details, "automatic", json_true());
    if (*out->commit_hash)
        json_object_set_new(details, "commitHash", json_string(out->commit_hash));
    review_tell(a->still->service, a->still->caller, &a->still->row,
                a->ends ? "workspace_approved" : "workspace_partial_approved", a->request->actor, details);
}

/* A second dry run, and only where others have uncommitted lines in the same files: reading what would be written of all would cost everybody. */
static int check_commit(struct approving *a, struct err *err)
{
    autodone(commit_forecast) struct commit_forecast forecast = COMMIT_FORECAST_NONE;
    autodone(approve) struct approve again = APPROVE_NONE;
    int r = commit_forecast_begin(a->still, a->out, &forecast, err);

    if (r < 0 || forecast.count == 0)
        return r;
    const struct approve_forecast asked = { forecast.paths, forecast.count, commit_forecast_take, &forecast };
    const struct approve_options options = { .selection = a->chosen.selection.file_count ? &a->chosen.selection : NULL,
                                             .is_forced = a->request->is_forced,
                                             .is_dry = true,
                                             .is_held = still_is_locked(a->still),
                                             .forecast = &asked };
    r = run_patiently(a, &options, &again, err);
    /* Conflicts that came up meanwhile are told by the approval itself. */
    return r < 0 ? r : commit_forecast_judge(a->still, &forecast, err);
}

static int prepare(struct approving *a, struct err *err)
{
    /* One that would have to be stopped for it is not, before it is known that there is a reason. */
    int r = still_try(a->still, err);

    if (r == 0)
        r = approving_load(a, err);
    if (r == 0)
        r = approving_choose(a, err);
    if (r == 0 && a->chosen.count > 0)
        r = run(a, true, err);
    else if (r == 0)
        judge(a);
    /* The verdicts say which changes those are; whatever else is wrong with them comes second. */
    if (a->decision.is_other_diff && a->out->approve.unaccepted_count + a->out->approve.unacknowledged_count == 0) {
        *err = ERR_NONE;
        r = approving_tell_refused(a, true, err);
    }
    if (r == 0 && a->request->creates_commit)
        r = check_commit(a, err);
    return r;
}

static int apply(struct approving *a, struct err *err)
{
    char **ids = NULL;
    int r = land(a, &ids, err);

    if (r == 0 && a->request->creates_commit && ids && ids[0])
        workspace_commit_approved(a->still, a->request, a->out, (const char *const *) ids);
    for (size_t i = 0; ids && ids[i]; i++)
        free(ids[i]);
    free(ids);
    if (r == 0 && !a->is_unsaid)
        tell(a);
    return r;
}

/* Holds the workspace and says what would be. 1: there is nothing to do, it was approved before. */
static int begin(struct approving *a, const char *id, struct err *err)
{
    int r = still_begin(a->service, a->caller, id, a->request->version, BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED), "approved",
                        a->still, err);

    if (r < 0)
        return r;
    a->still->may_stop = a->request->may_stop;
    if (a->still->row.status == WORKSPACE_STATUS_APPROVED) {
        a->out->was_approved_before = true;
        return 1;
    }
    workspaces_touch(a->service, id);
    if (!a->was_tried)
        r = approving_take_hooks(a, err);
    return r < 0 ? r : prepare(a, err);
}

/* Once more, from the beginning: everybody was at liberty while the hooks ran. */
static int begin_again(struct approving *a, const char *id, struct err *err)
{
    struct hook_results hooks = a->out->hooks;

    a->out->hooks = (struct hook_results){ 0 };
    chosen_done(&a->chosen);
    approving_decision_done(&a->decision);
    workspace_approved_done(a->out);
    a->out->hooks = hooks;
    a->out->applied_ns = clock_wall_ns();
    return begin(a, id, err);
}

static int try(struct approving *a, const char *id, struct err *err)
{
    int r;

    memcpy(a->tried, a->out->approve.digest, sizeof(a->tried));
    r = approving_run_hooks(a, &a->out->row, err);
    a->was_tried = true;
    return r < 0 || a->request->is_dry ? r : begin_again(a, id, err);
}

static int approve(struct approving *a, const char *id, struct err *err)
{
    int r = begin(a, id, err);

    if (r == 0 && a->hooks.count > 0 && a->out->approve.taken_count > 0)
        r = try(a, id, err);
    if (r != 0 || a->request->is_dry || (a->chosen.count == 0 && !a->ends))
        return r < 0 ? r : 0;
    return apply(a, err);
}

int workspaces_approve(struct service *service, const struct caller *caller, const char *id,
                       const struct workspace_approval *request, struct workspace_approved *ret, struct err *err)
{
    autodone(still) struct still still = STILL_NONE;
    struct approving a = {
        .service = service, .caller = caller, .request = request, .still = &still, .out = ret, .box = HOOK_BOX_NONE
    };
    int r;

    ret->applied_ns = clock_wall_ns();
    r = approve(&a, id, err);
    bool has_ended = r == 0 && !ret->was_approved_before && !request->is_dry && still.row.status == WORKSPACE_STATUS_APPROVED;
    chosen_done(&a.chosen);
    approving_decision_done(&a.decision);
    hook_list_done(&a.hooks);
    hook_box_done(&a.box);
    buf_done(&a.follow_up);
    if (still.row.id) {
        workspace_row_done(&ret->row);
        ret->row = still.row;
        still.row = (struct workspace_row){ 0 };
    }
    /* Starting again needs the row. */
    if (still.starts_again)
        workspace_row_get(service->store, id, &still.row, &(struct err){ 0 });
    still_done(&still);
    if (has_ended)
        workspaces_happened(service, id, BEHAVIOR_APPROVED);
    return r;
}
