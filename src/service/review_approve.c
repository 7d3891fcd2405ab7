/*
 * Approving: a plan, which is a dry run and decides whether the sandbox ends with it, and a run. In between, the hooks test
 * the planned changes in a sandbox of their own, and the agent's processes are ended if no changes remain. The run makes all
 * checks again, and so notices any change of the delta or the project in between.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/review_commit.h"
#include "service/review_commit_forecast.h"
#include "service/reviews_int.h"

#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)
#define BUSY_WAIT_MS 5000

const char *review_verdict_name(enum review_verdict verdict)
{
    static const char *const names[] = { "pending",  "skipped", "applied",   "partly",       "unchanged",
                                         "conflict", "stale",   "not_shown", "not_accepted", "unacknowledged" };

    return names[verdict];
}

void review_approved_done(struct review_approved *approved)
{
    sandbox_row_done(&approved->row);
    free(approved->verdicts);
    free(approved->files);
    approve_done(&approved->approve);
    acceptance_done(&approved->acceptance);
    change_set_done(&approved->set);
    hook_results_done(&approved->hooks);
    *approved = REVIEW_APPROVED_NONE;
}

/* ---- verdicts ---- */

static const enum review_verdict verdicts[] = {
    [APPROVE_WHOLE] = REVIEW_VERDICT_APPLIED,      [APPROVE_PARTLY] = REVIEW_VERDICT_PARTLY,
    [APPROVE_NOTHING] = REVIEW_VERDICT_NOTHING,    [APPROVE_CONFLICT] = REVIEW_VERDICT_CONFLICT,
    [APPROVE_STALE] = REVIEW_VERDICT_STALE,        [APPROVE_UNSHOWN] = REVIEW_VERDICT_UNSHOWN,
    [APPROVE_UNACCEPTED] = REVIEW_VERDICT_REFUSED, [APPROVE_UNACKNOWLEDGED] = REVIEW_VERDICT_UNACKNOWLEDGED,
};

/* A rename has two edits; the worse outcome counts. If an edit was refused before the reconciliation, the rest stays
 * undecided. */
static void give_verdicts(struct approval_run *a, const struct approve *approve)
{
    struct review_approved *out = a->out;
    bool is_undecided = approve->unaccepted_count + approve->unacknowledged_count > 0;

    out->applied = out->remaining = 0;
    for (size_t i = 0; i < out->set.count; i++) {
        const struct file_change *change = &out->set.items[i];
        const struct approve_file *file = approve_find(approve, change->scope_path),
                                  *from = change->from ? approve_find(approve, change->from->path) : NULL;
        enum review_verdict *verdict = &out->verdicts[i];

        if (from && (!file || (from->outcome >= APPROVE_CONFLICT && file->outcome < APPROVE_CONFLICT)))
            file = from;
        if (a->chosen.items[i] != CHOOSING_NOT && approve->files &&
            (!is_undecided || (file && file->outcome >= APPROVE_CONFLICT))) {
            out->files[i] = file;
            *verdict = file ? verdicts[file->outcome] : REVIEW_VERDICT_NOTHING;
            /* No hunk of it was chosen. */
            if (a->chosen.items[i] == CHOOSING_HUNKS && file && file->outcome == APPROVE_NOTHING &&
                file->hunks_taken < file->hunk_count)
                *verdict = REVIEW_VERDICT_LEFT;
        }
        if (change->is_dir)
            continue;
        out->remaining += *verdict != REVIEW_VERDICT_APPLIED && *verdict != REVIEW_VERDICT_NOTHING;
        out->applied += *verdict == REVIEW_VERDICT_APPLIED || *verdict == REVIEW_VERDICT_PARTLY;
    }
}

static bool is_all_done(const struct review_approved *out)
{
    for (size_t i = 0; i < out->set.count; i++)
        if (out->verdicts[i] != REVIEW_VERDICT_APPLIED && out->verdicts[i] != REVIEW_VERDICT_NOTHING)
            return false;
    return true;
}

/* ---- refusals ---- */

/* "3 changes WHAT; nothing was applied". */
static int refuse_count(struct err *err, enum err_code code, const char *reason, size_t count, const char *what)
{
    static const char *const verbs[][2] = { { "are ", "is " }, { "were ", "was " }, { "have ", "has " } };
    const char *verb = "";

    for (size_t i = 0; count == 1 && i < ARRAY_LEN(verbs); i++) {
        size_t len = strlen(verbs[i][0]);
        if (strncmp(what, verbs[i][0], len) != 0)
            continue;
        verb = verbs[i][1];
        what += len;
        break;
    }
    return err_set_reason(
        err, err_set(err, code, -EPERM, "%zu change%s %s%s; nothing was applied", count, count == 1 ? "" : "s", verb, what),
        reason);
}

/* `is_late`: the plan did not have this problem. */
static int refuse_unshown(const struct approval_run *a, size_t count, bool is_late, struct err *err)
{
    if (is_late)
        return refuse_count(err, ERR_ABORTED, "DIFF_STALE", count, "were changed meanwhile");
    if (a->request->hashes)
        return refuse_count(err, ERR_ABORTED, "DIFF_STALE", count, "are not what was seen");
    if (a->out->approve.stale_count == 0 && a->decision.seen.count == 0)
        return refuse_count(err, ERR_ABORTED, "DIFF_NOT_SERVED", count, "nobody has looked at");
    return refuse_count(err, ERR_ABORTED, "DIFF_STALE", count, "were made or changed since the diff was shown");
}

/* Reports the changes that approve_run() refused. */
static int refuse_changes(const struct approval_run *a, bool is_late, struct err *err)
{
    const struct approve *approve = &a->out->approve;
    size_t unshown = approve->stale_count - approve->lost_hunk_count + approve->unshown_count;

    if (approve->unaccepted_count > 0)
        return refuse_count(err, ERR_INVALID_ARGUMENT, "NOT_ACCEPTED", approve->unaccepted_count,
                            "may not be applied by the sandbox's acceptance");
    if (approve->unacknowledged_count > 0)
        return refuse_count(err, ERR_FAILED_PRECONDITION, "UNACKNOWLEDGED", approve->unacknowledged_count,
                            "may run on this host later without being called");
    if (a->decision.is_other_diff)
        return err_set_reason(
            err, err_set(err, ERR_ABORTED, -ESTALE, "the changes are not those of diffHash any more; nothing was applied"),
            "DIFF_STALE");
    if (unshown > 0)
        return refuse_unshown(a, unshown, is_late, err);
    if (approve->conflict_count > 0)
        return refuse_count(err, ERR_FAILED_PRECONDITION, "CONFLICTS", approve->conflict_count,
                            "cannot be applied: the project has changed there, too");
    if (is_late)
        return refuse_unshown(a, approve->stale_count, true, err);
    return refuse_count(err, ERR_ABORTED, "HUNK_UNKNOWN", approve->stale_count, "have other hunks than those that are named");
}

/* ---- the plan ---- */

/* Makes the dry run. Writes only the tree for the hooks. */
static int plan_approval(struct approval_run *a, struct err *err)
{
    struct review_approved *out = a->out;
    /* A sandbox that can only be quiesced by a stop runs on until the plan has shown that there is a reason to stop it. */
    int r = review_lock_try(a->review_lock, err);

    if (r == 0)
        r = approval_run_look(a, err);
    if (r < 0)
        return r;
    const struct approve_options options = { .selection = a->chosen.selection.file_count ? &a->chosen.selection : NULL,
                                             .is_forced = a->request->is_forced,
                                             .is_dry = true,
                                             .is_held = review_lock_is_locked(a->review_lock),
                                             .is_dropping = review_lock_can_drop(a->review_lock),
                                             .codebase = review_lock_lands_in(a->review_lock),
                                             .wait_ms = BUSY_WAIT_MS,
                                             .staged_tree_path = a->box.staged_path };
    if (a->chosen.count > 0)
        r = approve_run(a->review_lock->delta_path, &a->decision.given, &options, &out->approve, err);
    if (r == -EBUSY)
        err->code = ERR_ABORTED;
    if (r < 0)
        return r;
    give_verdicts(a, &out->approve);
    /* The verdicts show which changes differ from the request's diff. */
    if (r > 0 || a->decision.is_other_diff)
        return refuse_changes(a, false, err);
    a->ends = is_all_done(out);
    memcpy(a->tried, out->approve.digest, sizeof(a->tried));
    return a->request->creates_commit ? commit_forecast_check(a->review_lock, out, err) : 0;
}

/* ---- between plan and run ---- */

/* Others could change the sandbox until now, so the agent's changes are read again; the caller decides whether a difference
 * matters. Returns 1 if they differ. */
static int reread_changes(struct approval_run *a, struct err *err)
{
    char planned[CHANGE_SET_HASH_MAX];
    int r;

    memcpy(planned, a->out->hash, sizeof(planned));
    chosen_done(&a->chosen);
    approval_decision_done(&a->decision);
    change_set_done(&a->out->set);
    acceptance_done(&a->out->acceptance);
    free(a->out->verdicts);
    free(a->out->files);
    a->out->verdicts = NULL;
    a->out->files = NULL;
    r = approval_run_look(a, err);
    if (r < 0)
        return r;
    return a->decision.is_other_diff ? refuse_changes(a, false, err) : !change_set_hash_is(a->out->hash, planned, true);
}

/* The sandbox is unlocked while the hooks run: it goes on, and others may decide about it. Only what the hooks tested is
 * applied. Returns 1 if it was approved meanwhile. */
static int try_hooks(struct approval_run *a, const char *id, struct err *err)
{
    int r = approval_run_run_hooks(a, &a->out->row, err);

    a->was_tried = true;
    if (r < 0 || a->request->is_dry)
        return r;
    a->out->applied_ns = clock_wall_ns();
    r = review_lock_begin(a->service, a->caller, id, a->request->version, BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED),
                          "approved", a->review_lock, err);
    a->review_lock->may_stop = a->request->may_stop;
    if (r == 0 && sandbox_row_state(&a->review_lock->row) == SANDBOX_STATE_APPROVED)
        return 1;
    if (r == 0)
        r = review_lock_try(a->review_lock, err);
    if (r == 0)
        r = reread_changes(a, err);
    if (r < 0)
        return r;
    /* New changes were not decided about, and stay. */
    a->ends &= r == 0;
    return 0;
}

/* From here on nothing may change. If the sandbox could write until now, because it was not quiesced or ends with this
 * approval, its writes would otherwise be applied unseen, or be lost. */
static int quiesce_for_run(struct approval_run *a, struct err *err)
{
    bool could_change =
        sandbox_row_state(&a->review_lock->row) == SANDBOX_STATE_ACTIVE && (a->ends || !review_lock_is_calm(a->review_lock));
    bool means_whatever_is_there = a->request->is_forced && a->chosen.selection.file_count == 0;
    int r = a->ends ? review_lock_halt(a->review_lock, err) : review_lock_hold(a->review_lock, err);

    if (r == 0 && could_change)
        r = reread_changes(a, err);
    if (r <= 0 || means_whatever_is_there)
        return r < 0 ? r : 0;
    return err_set_reason(err,
                          err_set(err, ERR_ABORTED, -ESTALE,
                                  "the agent changed something until it was stopped; nothing was applied%s",
                                  a->ends ? ", and it is stopped now" : ""),
                          "DIFF_STALE");
}

/* ---- the run ---- */

static void on_follow_up_text(const struct approve *approve, struct buf *out, void *cookie)
{
    struct approval_run *a = cookie;
    const struct review_follow_up what = { a->request->actor, a->request->is_automatic, a->ends };

    give_verdicts(a, approve);
    review_follow_up_write(a->review_lock, &what, a->out, out);
}

/* The transaction is final: if the follow-up fails now, it is in the record, and the next operation on the sandbox
 * completes it. Rows of provenance are written nevertheless if possible, so that the changes can be committed. */
static int finish_approval(struct approval_run *a, char ***ret_ids, struct err *err)
{
    struct review_approved *out = a->out;
    const char *approval_id = out->approve.id;
    struct err later = ERR_NONE, unwritten = ERR_NONE;
    int r = a->ends ? 0 : review_lock_release_taken(a->review_lock, &out->approve, &later);

    if (!*approval_id) {
        /* The project has all of it already: nothing was applied, and there is no record. */
        sandboxes_totals(a->service)->patches++;
        return a->ends ? review_end(a->review_lock, err) : 0;
    }
    if (r < 0) {
        snprintf(out->note, sizeof(out->note),
                 "all is applied, but not yet taken out of the sandbox, which is tried again when it is next looked at: %s",
                 later.text);
        log_warn("what was applied is not taken out of its sandbox yet", LOG_STR("sandbox_id", a->review_lock->row.id),
                 LOG_STR("error", later.text));
        r = review_record_note(a->review_lock, approval_id, ret_ids, &unwritten);
    } else {
        r = review_record_finish(a->review_lock, approval_id, ret_ids, &unwritten);
        a->is_unsaid = r < 0;
    }
    /* Only the directories of project and sandbox have the change yet. The recovery that completes it also writes the
     * event. */
    if (a->is_unsaid) {
        snprintf(out->note, sizeof(out->note), "all is applied, but that could not be noted yet, which is tried again: %s",
                 unwritten.text);
        review_record_left(a->review_lock, &unwritten);
    }
    if (r < 0 && a->request->creates_commit)
        snprintf(out->commit_error, sizeof(out->commit_error), "what was applied could not be noted, commit it later: %s",
                 unwritten.text);
    return 0;
}

static void send_approval_event(struct approval_run *a)
{
    struct review_approved *out = a->out;
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
        json_object_set_new(details, "hooks", review_hooks_brief(&out->hooks));
    if (a->request->is_automatic)
        json_object_set_new(details, "automatic", json_true());
    if (*out->commit_hash)
        json_object_set_new(details, "commitHash", json_string(out->commit_hash));
    if (out->approve.version > 0)
        json_object_set_new(details, "codebaseVersion", json_integer((json_int_t) out->approve.version));
    review_tell(a->review_lock->service, a->review_lock->caller, &a->review_lock->row,
                a->ends ? "sandbox_approved" : "sandbox_partial_approved", a->request->actor, details);
}

static int apply_approval(struct approval_run *a, struct err *err)
{
    struct review_approved *out = a->out;
    char **ids = NULL;
    int r = quiesce_for_run(a, err);

    if (r < 0)
        return r;
    const struct approve_options options = { .selection = a->chosen.selection.file_count ? &a->chosen.selection : NULL,
                                             .is_forced = a->request->is_forced,
                                             .is_held = review_lock_is_locked(a->review_lock),
                                             .is_dropping = !a->ends && review_lock_can_drop(a->review_lock),
                                             .codebase = review_lock_lands_in(a->review_lock),
                                             .umask = a->request->umask,
                                             .wait_ms = BUSY_WAIT_MS,
                                             .owe = on_follow_up_text,
                                             .cookie = a };
    a->decision.given.hooks = a->was_tried ? DECISION_HOOKS_TRIED : DECISION_HOOKS_WAIVED;
    a->decision.given.tried = a->tried;
    approve_done(&out->approve);
    r = approve_run(a->review_lock->delta_path, &a->decision.given, &options, &out->approve, err);
    if (r == -EBUSY)
        err->code = ERR_ABORTED;
    if (r == -ESTALE && a->was_tried)
        return err_set_reason(
            err, err_set(err, ERR_ABORTED, r, "something was changed while the hooks ran; nothing was applied"), "DIFF_STALE");
    if (r < 0)
        return r;
    give_verdicts(a, &out->approve);
    if (r > 0)
        return refuse_changes(a, !a->was_tried, err);
    out->applied_ns = clock_wall_ns();
    r = finish_approval(a, &ids, err);
    if (r == 0 && a->request->creates_commit && ids && ids[0])
        review_commit_approved(a->review_lock, a->request, out, (const char *const *) ids);
    for (size_t i = 0; ids && ids[i]; i++)
        free(ids[i]);
    free(ids);
    if (r == 0 && !a->is_unsaid)
        send_approval_event(a);
    return r;
}

int reviews_approve(struct service *service, const struct caller *caller, const char *id, const struct review_approval *request,
                    struct review_approved *ret, struct err *err)
{
    autodone(review_lock) struct review_lock review_lock = REVIEW_LOCK_NONE;
    struct approval_run a = {
        .service = service, .caller = caller, .request = request, .review_lock = &review_lock, .out = ret, .box = HOOK_BOX_NONE
    };
    int r;

    ret->applied_ns = clock_wall_ns();
    r = review_lock_begin(service, caller, id, request->version, BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED), "approved",
                          &review_lock, err);
    review_lock.may_stop = request->may_stop;
    /* 1: there is nothing to do. */
    if (r == 0)
        r = sandbox_row_state(&review_lock.row) == SANDBOX_STATE_APPROVED;
    if (r == 0) {
        sandboxes_touch(service, id);
        r = approval_run_take_hooks(&a, err);
    }
    if (r == 0)
        r = plan_approval(&a, err);
    if (r == 0 && a.hooks.count > 0 && ret->approve.taken_count > 0)
        r = try_hooks(&a, id, err);
    ret->was_approved_before = r > 0;
    if (r == 0 && !request->is_dry && (a.chosen.count > 0 || a.ends))
        r = apply_approval(&a, err);
    bool has_ended = r == 0 && !request->is_dry && sandbox_row_state(&review_lock.row) == SANDBOX_STATE_APPROVED;
    chosen_done(&a.chosen);
    approval_decision_done(&a.decision);
    hook_list_done(&a.hooks);
    hook_box_done(&a.box);
    if (review_lock.row.id) {
        sandbox_row_done(&ret->row);
        ret->row = review_lock.row;
        review_lock.row = (struct sandbox_row){ 0 };
    }
    /* To start it again needs the row. */
    if (review_lock.starts_again)
        sandbox_row_get(service->store, id, &review_lock.row, &(struct err){ 0 });
    review_lock_done(&review_lock);
    if (has_ended)
        sandboxes_happened(service, id, BEHAVIOR_APPROVED);
    return r < 0 ? r : 0;
}
