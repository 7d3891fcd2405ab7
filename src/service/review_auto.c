/*
 * Decides about a sandbox after the agent's run, by the creator's settings: behavior.acceptance.autoApprove and autoReject,
 * and then stopOn and deleteOn of its lifecycle.
 *
 * In doubt, both leave the decision to a person. A sandbox is rejected if a change is explicitly denied. It is approved if the
 * run was completed, everything is accepted, nothing conflicts or needs acknowledgement, and its size is within the server's
 * limit for automatic approvals. Such an approval is like any other, with hooks, in one transaction.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "service/reviews_int.h"

#define ACTOR_APPROVE "auto-approve"
#define ACTOR_REJECT "auto-reject"
#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)

bool review_outcome_parse(const char *name, enum behavior_event *ret)
{
    static const struct {
        const char *name;
        enum behavior_event event;
    } known[] = { { "completed", BEHAVIOR_RUN_COMPLETED },
                  { "failed", BEHAVIOR_RUN_FAILED },
                  { "cancelled", BEHAVIOR_RUN_CANCELLED } };

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i].name, name) == 0) {
            *ret = known[i].event;
            return true;
        }
    }
    return false;
}

/* ---- counting ---- */

struct tally {
    size_t files, lines, denied, unaccepted, unacknowledged, uncounted;
    const char *denied_path; /* the first one; borrowed from the set */
};

static void tally_add_change(const struct review_diff *diff, const struct file_change *change, struct tally *tally)
{
    struct acceptance_verdict verdict = decision_check_acceptance(&diff->acceptance, change);

    tally->unacknowledged += change->acknowledge != ACKNOWLEDGE_NOTHING;
    if (change->is_dir)
        return;
    tally->files++;
    tally->lines += change->added + change->removed;
    tally->uncounted += !change->is_measured || change->is_too_large || change->failure < 0;
    tally->unaccepted += verdict.status != ACCEPTANCE_ACCEPTED;
    if (verdict.status != ACCEPTANCE_DENIED)
        return;
    tally->denied++;
    if (!tally->denied_path)
        tally->denied_path = change->path;
}

static int tally_changes(struct service *service, const struct caller *caller, const char *id, struct review_diff *diff,
                         struct tally *ret, struct err *err)
{
    int r = reviews_diff(service, caller, id, diff, err);

    if (r == 0)
        r = change_set_measure(&diff->set, NULL, 0, err);
    if (r == 0)
        r = change_set_hash(&diff->set, diff->hash, err);
    for (size_t i = 0; r == 0 && i < diff->set.count; i++)
        tally_add_change(diff, &diff->set.items[i], ret);
    return r;
}

/* ---- deciding ---- */

static void set_decision(struct review_finish *ret, const char *decision, const char *reason)
{
    ret->decision = decision;
    snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
}

/* Returns the reason against an automatic approval, or NULL. */
static const char *reason_against_approval(const struct service *service, const struct tally *tally)
{
    const struct service_options *options = &service->options;

    if (options->requires_human)
        return "a person has to approve on this server";
    if (tally->files == 0)
        return "nothing was changed";
    if (tally->unaccepted > 0)
        return "not every change is accepted by its rules";
    if (tally->unacknowledged > 0)
        return "a change needs a word of its own";
    if (options->auto_files_max > 0 && tally->files > options->auto_files_max)
        return "more files are changed than may be approved automatically";
    if (options->auto_lines_max > 0 && (tally->uncounted > 0 || tally->lines > options->auto_lines_max))
        return "more lines are changed than may be approved automatically";
    return NULL;
}

static int approve_automatically(struct service *service, const struct caller *caller, const char *id, const char *hash,
                                 struct review_finish *ret, struct err *err)
{
    struct review_approval request = { .diff_hash = hash, .actor = ACTOR_APPROVE, .message = "", .is_automatic = true };
    autodone(review_approved) struct review_approved approved = REVIEW_APPROVED_NONE;
    int r = reviews_approve(service, caller, id, &request, &approved, err);

    if (r == 0) {
        set_decision(ret, "approved", "everything is accepted");
        memcpy(ret->approval_id, approved.approve.id, sizeof(ret->approval_id));
        ret->applied = approved.applied;
        return 0;
    }
    /* After conflicts, failed hooks or writes by the agent, a person decides. */
    if (!err->reason)
        return r;
    set_decision(ret, "none", err->text);
    *err = ERR_NONE;
    return 0;
}

static int reject_automatically(struct service *service, const struct caller *caller, const char *id, const struct tally *tally,
                                struct review_finish *ret, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = review_reject(service, caller, id, ACTOR_REJECT, json_pack("{s:b}", "automatic", 1), 0, &row, err);

    if (r < 0)
        return r;
    buf_addf(&text, "%zu change%s denied by its rules: ", tally->denied, tally->denied == 1 ? " is" : "s are");
    buf_add_excerpt(&text, tally->denied_path, strlen(tally->denied_path));
    set_decision(ret, "rejected", text.data);
    return 0;
}

static int decide_automatically(struct service *service, const struct caller *caller, const char *id,
                                const struct behavior *behavior, enum behavior_event event, struct review_finish *ret,
                                struct err *err)
{
    autodone(review_diff) struct review_diff diff = REVIEW_DIFF_NONE;
    struct tally tally = { 0 };
    const char *wrong;
    int r;

    if (event == BEHAVIOR_RUN_CANCELLED || (!behavior->auto_rejects && !behavior->auto_approves))
        return 0;
    r = tally_changes(service, caller, id, &diff, &tally, err);
    if (r < 0)
        return r;
    if (behavior->auto_rejects && tally.denied > 0)
        return reject_automatically(service, caller, id, &tally, ret, err);
    if (!behavior->auto_approves || event != BEHAVIOR_RUN_COMPLETED)
        return 0;
    wrong = reason_against_approval(service, &tally);
    if (!wrong)
        return approve_automatically(service, caller, id, diff.hash, ret, err);
    set_decision(ret, "none", wrong);
    return 0;
}

int reviews_finish(struct service *service, const struct caller *caller, const char *id, enum behavior_event event,
                   const char *actor, int64_t version, struct review_finish *ret, struct err *err)
{
    struct behavior behavior;
    bool is_open;
    int r;

    *ret = (struct review_finish){ .decision = "none" };
    {
        autodone(review_lock) struct review_lock review_lock = REVIEW_LOCK_NONE;

        r = review_lock_begin(service, caller, id, version, BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED) | BIT(REJECTED),
                              "finished", &review_lock, err);
        if (r < 0)
            return r;
        behavior = behavior_parse(review_lock.row.behavior);
        is_open = (BIT(ACTIVE) | BIT(STOPPED)) & SANDBOX_STATE_BIT(sandbox_row_state(&review_lock.row));
        if (is_open)
            sandbox_tell(service, caller, &review_lock.row, "sandbox_finished", actor,
                         json_pack("{s:s}", "outcome",
                                   event == BEHAVIOR_RUN_COMPLETED ? "completed"
                                   : event == BEHAVIOR_RUN_FAILED  ? "failed"
                                                                   : "cancelled"));
    }
    if (is_open)
        r = decide_automatically(service, caller, id, &behavior, event, ret, err);
    if (r < 0)
        return r;
    if (is_open)
        sandboxes_happened(service, id, event);
    return service_find_sandbox(service, caller, id, &ret->row, err);
}

void review_finish_done(struct review_finish *finish)
{
    sandbox_row_done(&finish->row);
}
