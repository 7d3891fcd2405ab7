/* Rejecting, discarding, comparing with the project, rebasing, undoing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "review/commit.h"
#include "review/discard.h"
#include "service/workspace_review_int.h"

#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)

static void take_row(struct still *still, struct sandbox_row *ret)
{
    struct sandbox_row fresh = { 0 };

    if (sandbox_row_get(still->service->store, still->row.id, &fresh, &(struct err){ 0 }) < 0)
        return;
    sandbox_row_done(ret);
    *ret = fresh;
}

static void read_head(const struct caller *caller, const struct sandbox_row *row, char ret[65])
{
    struct err ignored = ERR_NONE;

    if (commit_head(row->project_root, caller->allowed_roots, ret, &ignored) < 0)
        ret[0] = '\0';
}

/* ---- reject ---- */

int workspaces_reject(struct service *service, const struct caller *caller, const char *id, const char *actor, int64_t version,
                      struct sandbox_row *ret, struct err *err)
{
    return workspace_reject(service, caller, id, actor, NULL, version, ret, err);
}

int workspace_reject(struct service *service, const struct caller *caller, const char *id, const char *actor, json_t *details,
                     int64_t version, struct sandbox_row *ret, struct err *err)
{
    bool is_new = false;
    int r;
    {
        autodone(still) struct still still = STILL_NONE;
        unsigned from = BIT(ACTIVE) | BIT(STOPPED);

        r = still_begin(service, caller, id, version, from | BIT(REJECTED), "rejected", &still, err);
        is_new = r == 0 && sandbox_row_state(&still.row) != SANDBOX_STATE_REJECTED;
        if (is_new)
            r = still_halt(&still, err);
        if (r == 0 && is_new)
            r = life_decide(service, &still.row, SANDBOX_DECISION_REJECTED, err);
        if (r == 0 && is_new) {
            workspaces_totals(service)->rejected++;
            review_tell(service, caller, &still.row, "sandbox_rejected", actor, json_incref(details));
        }
        if (r == 0)
            take_row(&still, ret);
    }
    json_decref(details);
    if (r == 0 && is_new)
        workspaces_happened(service, id, BEHAVIOR_REJECTED);
    return r;
}

/* ---- discard ---- */

void workspace_discarded_done(struct workspace_discarded *discarded)
{
    for (size_t i = 0; i < discarded->file_count; i++)
        free(discarded->files[i]);
    for (size_t i = 0; i < discarded->unknown_count; i++)
        free(discarded->unknown[i]);
    free(discarded->files);
    free(discarded->unknown);
    *discarded = (struct workspace_discarded){ 0 };
}

static int drop_chosen(struct still *still, const struct chosen *chosen, struct err *err)
{
    autodone(discard) struct discard plan = DISCARD_NONE;
    autofree struct fence_revert *drops = NULL;
    int r = discard_plan(still->delta_path, &chosen->selection, &plan, err);

    if (r < 0)
        return r;
    drops = xalloc((plan.drop_count + 1) * sizeof(*drops));
    for (size_t i = 0; i < plan.drop_count; i++)
        drops[i] = (struct fence_revert){ .path = plan.drops[i], .replace_fd = -1 };
    return still_release(still, drops, plan.drop_count, err);
}

static void count_discarded(const struct change_set *set, const struct chosen *chosen, struct workspace_discarded *ret)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i].is_dir)
            continue;
        if (chosen->items[i] == CHOOSING_NOT) {
            ret->remaining++;
            continue;
        }
        vec_room(&ret->files, &ret->file_cap, ret->file_count);
        ret->files[ret->file_count++] = xdup(set->items[i].scope_path);
    }
}

static int discard(struct still *still, const struct workspace_choice *choice, const char *actor,
                   struct workspace_discarded *ret, struct err *err)
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    autodone(chosen) struct chosen chosen = { 0 };
    struct change_set_options options = { .prefix = still->prefix };
    int r = still_hold_to_drop(still, err);

    if (r == 0)
        r = change_set_load(still->delta_path, &options, &set, err);
    if (r == 0)
        r = chosen_make(choice, &set, still->row.id, ret, &chosen, err);
    if (r < 0)
        return r;
    chosen_select(&chosen, &set);
    if (chosen.count > 0)
        r = drop_chosen(still, &chosen, err);
    if (r < 0)
        return r;
    count_discarded(&set, &chosen, ret);
    if (ret->file_count > 0)
        review_tell(
            still->service, still->caller, &still->row, "sandbox_discarded", actor,
            json_pack("{s:I, s:I}", "discarded", (json_int_t) ret->file_count, "remaining", (json_int_t) ret->remaining));
    return 0;
}

int workspaces_discard(struct service *service, const struct caller *caller, const char *id,
                       const struct workspace_choice *choice, const struct workspace_decision *decision,
                       struct workspace_discarded *ret, struct err *err)
{
    autodone(still) struct still still = STILL_NONE;
    int r = still_begin(service, caller, id, decision->version, BIT(ACTIVE) | BIT(STOPPED), "discarded from", &still, err);

    if (r < 0)
        return r;
    still.may_stop = decision->may_stop;
    workspaces_touch(service, id);
    return discard(&still, choice, decision->actor, ret, err);
}

/* ---- the project meanwhile ---- */

void workspace_conflict_report_done(struct workspace_conflict_report *report)
{
    sandbox_row_done(&report->row);
    free(report->prefix);
    conflict_report_done(&report->report);
    *report = WORKSPACE_CONFLICT_REPORT_NONE;
}

int workspaces_conflicts(struct service *service, const struct caller *caller, const char *id,
                         struct workspace_conflict_report *ret, struct err *err)
{
    autofree char *delta_path = workspaces_path(service, id, "delta");
    int r = workspaces_get(service, caller, id, &ret->row, err);

    if (r < 0)
        return r;
    if (SANDBOX_STATE_BIT(sandbox_row_state(&ret->row)) & (BIT(CREATING) | BIT(DELETED) | BIT(ERROR)))
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox %s is %s, and has no changes to compare",
                                      id, sandbox_state_name(sandbox_row_state(&ret->row))),
                              "INVALID_STATE");
    ret->prefix = workspace_prefix(&ret->row);
    read_head(caller, &ret->row, ret->head);
    return conflict_report_make(delta_path, NULL, &ret->report, err);
}

void workspace_rebased_done(struct workspace_rebased *rebased)
{
    sandbox_row_done(&rebased->row);
    free(rebased->prefix);
    rebase_done(&rebased->rebase);
    *rebased = WORKSPACE_REBASED_NONE;
}

/* Texts first, then the notes: see review/rebase.h. */
static int rebase(struct still *still, enum rebase_strategy strategy, struct workspace_rebased *ret, struct err *err)
{
    int r = 0;

    /* Its files are made anew from the copy, which would not have the merged texts. */
    if (still_is_copy(still) && strategy != REBASE_REGENERATE)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP,
                                      "a sandbox on a copy cannot be rebased; approve what merges, or force"),
                              "DRIVER_CANNOT");
    if (strategy != REBASE_REGENERATE)
        r = still_hold_to_drop(still, err);
    if (r == 0)
        r = rebase_plan(still->delta_path, NULL, strategy, &ret->rebase, err);
    if (r < 0 || strategy == REBASE_REGENERATE)
        return r;
    r = still_release(still, ret->rebase.changes, ret->rebase.change_count, err);
    return r < 0 ? r : rebase_finish(&ret->rebase, err);
}

static int move_base(struct still *still, struct workspace_rebased *ret, struct err *err)
{
    snprintf(ret->old_head, sizeof(ret->old_head), "%s", still->row.base_commit ? still->row.base_commit : "");
    read_head(still->caller, &still->row, ret->new_head);
    if (strcmp(ret->old_head, ret->new_head) == 0)
        return 0;
    free(still->row.base_commit);
    still->row.base_commit = xdup(ret->new_head);
    return sandbox_row_update(still->service->store, &still->row, err);
}

int workspaces_rebase(struct service *service, const struct caller *caller, const char *id, enum rebase_strategy strategy,
                      const struct workspace_decision *decision, struct workspace_rebased *ret, struct err *err)
{
    autodone(still) struct still still = STILL_NONE;
    int r = still_begin(service, caller, id, decision->version, BIT(ACTIVE) | BIT(STOPPED), "rebased", &still, err);

    if (r < 0)
        return r;
    still.may_stop = decision->may_stop;
    workspaces_touch(service, id);
    ret->prefix = xdup(still.prefix);
    r = rebase(&still, strategy, ret, err);
    if (r == 0)
        r = move_base(&still, ret, err);
    if (r < 0)
        return r;
    review_tell(service, caller, &still.row, "sandbox_rebased", decision->actor,
                json_pack("{s:I, s:I, s:s, s:s}", "moved", (json_int_t) ret->rebase.moved_count, "conflicts",
                          (json_int_t) ret->rebase.conflict_count, "previousBaseHash", ret->old_head, "newBaseHash",
                          ret->new_head));
    take_row(&still, &ret->row);
    return 0;
}

/* ---- undo ---- */

void workspace_undone_done(struct workspace_undone *undone)
{
    sandbox_row_done(&undone->row);
    free(undone->prefix);
    undo_done(&undone->undo);
    *undone = (struct workspace_undone){ 0 };
}

/* The one of that id, or else the last that was neither undone nor is an undo. What is not found is left to undo_run() to tell of. */
static int find_approval(const char *delta_path, const char *id, struct workspace_undone *ret, struct err *err)
{
    autofree struct undo_entry *entries = NULL;
    size_t count = 0;
    int r = undo_list(delta_path, &entries, &count, err);

    snprintf(ret->undoes, sizeof(ret->undoes), "%s", id);
    for (size_t i = count; r == 0 && i-- > 0;) {
        const struct undo_entry *entry = &entries[i];
        if (*id ? strcmp(entry->id, id) != 0 : entry->is_undone || *entry->undoes)
            continue;
        memcpy(ret->undoes, entry->id, ID_TEXT_MAX);
        ret->path_count = entry->path_count;
        return 0;
    }
    if (r < 0)
        return r;
    if (*id) {
        err_reject(err, -ENOENT, id, "is no approval of this sandbox");
        err->code = ERR_NOT_FOUND;
        return err_set_reason(err, -ENOENT, "NO_APPROVAL");
    }
    return err_set_reason(err, err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no approval to be undone"), "NO_APPROVAL");
}

static int undo(struct still *still, bool is_dry, const char *actor, struct workspace_undone *ret, struct err *err)
{
    autodone(buf) struct buf follow_up = BUF_EMPTY;
    struct undo_options options = { .is_dry = is_dry, .codebase = still_lands_in(still), .follow_up = &follow_up };
    struct err later = ERR_NONE;
    int r = still_hold(still, err);

    options.is_held = still_is_locked(still);
    if (r < 0)
        return r;
    review_follow_up_write(still, &(struct review_follow_up){ .actor = actor }, NULL, &follow_up);
    r = undo_run(still->delta_path, ret->undoes, &options, &ret->undo, err);
    if (is_dry || r != 0)
        return r;
    if (review_record_finish(still, ret->undo.id, NULL, &later) < 0) {
        /* Undone it is. Whoever finishes the rest tells of it. */
        snprintf(ret->note, sizeof(ret->note), "all is undone, but that could not be noted yet, which is tried again: %s",
                 later.text);
        review_record_left(still, &later);
        return 0;
    }
    review_tell(still->service, still->caller, &still->row, "sandbox_undone", actor,
                json_pack("{s:s, s:s, s:I}", "approvalId", ret->undoes, "undoId", ret->undo.id, "files",
                          (json_int_t) ret->undo.done_count));
    return 0;
}

int workspaces_undo(struct service *service, const struct caller *caller, const char *id, const char *approval_id, bool is_dry,
                    const struct workspace_decision *decision, struct workspace_undone *ret, struct err *err)
{
    autodone(still) struct still still = STILL_NONE;
    int r =
        still_begin(service, caller, id, decision->version, BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED), "undone", &still, err);

    if (r < 0)
        return r;
    still.may_stop = decision->may_stop;
    workspaces_touch(service, id);
    ret->prefix = xdup(still.prefix);
    r = find_approval(still.delta_path, approval_id, ret, err);
    if (r == 0)
        r = undo(&still, is_dry, decision->actor, ret, err);
    if (r >= 0)
        take_row(&still, &ret->row);
    return r;
}
