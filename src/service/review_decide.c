/* Rejecting, discarding, comparing with the project, rebasing, undoing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "review/commit.h"
#include "review/discard.h"
#include "service/reviews_int.h"

#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)

static void get_fresh_row(struct review_lock *review_lock, struct sandbox_row *ret)
{
    struct sandbox_row fresh = { 0 };

    if (sandbox_row_get(review_lock->service->store, review_lock->row.id, &fresh, &(struct err){ 0 }) < 0)
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

int reviews_reject(struct service *service, const struct caller *caller, const char *id, const char *actor, int64_t version,
                   struct sandbox_row *ret, struct err *err)
{
    return review_reject(service, caller, id, actor, NULL, version, ret, err);
}

int review_reject(struct service *service, const struct caller *caller, const char *id, const char *actor, json_t *details,
                  int64_t version, struct sandbox_row *ret, struct err *err)
{
    bool is_new = false;
    int r;
    {
        autodone(review_lock) struct review_lock review_lock = REVIEW_LOCK_NONE;
        unsigned from = BIT(ACTIVE) | BIT(STOPPED);

        r = review_lock_begin(service, caller, id, version, from | BIT(REJECTED), "rejected", &review_lock, err);
        is_new = r == 0 && sandbox_row_state(&review_lock.row) != SANDBOX_STATE_REJECTED;
        if (is_new)
            r = review_lock_halt(&review_lock, err);
        if (r == 0 && is_new)
            r = life_decide(service, &review_lock.row, SANDBOX_DECISION_REJECTED, err);
        if (r == 0 && is_new) {
            sandboxes_totals(service)->rejected++;
            review_tell(service, caller, &review_lock.row, "sandbox_rejected", actor, json_incref(details));
        }
        if (r == 0)
            get_fresh_row(&review_lock, ret);
    }
    json_decref(details);
    if (r == 0 && is_new)
        sandboxes_happened(service, id, BEHAVIOR_REJECTED);
    return r;
}

/* ---- discard ---- */

void review_discarded_done(struct review_discarded *discarded)
{
    for (size_t i = 0; i < discarded->file_count; i++)
        free(discarded->files[i]);
    for (size_t i = 0; i < discarded->unknown_count; i++)
        free(discarded->unknown[i]);
    free(discarded->files);
    free(discarded->unknown);
    *discarded = (struct review_discarded){ 0 };
}

static int drop_chosen_changes(struct review_lock *review_lock, const struct chosen *chosen, struct err *err)
{
    autodone(discard) struct discard plan = DISCARD_NONE;
    autofree struct fence_revert *drops = NULL;
    int r = discard_plan(review_lock->delta_path, &chosen->selection, &plan, err);

    if (r < 0)
        return r;
    drops = xalloc((plan.drop_count + 1) * sizeof(*drops));
    for (size_t i = 0; i < plan.drop_count; i++)
        drops[i] = (struct fence_revert){ .path = plan.drops[i], .replace_fd = -1 };
    return review_lock_release(review_lock, drops, plan.drop_count, err);
}

static void count_discarded(const struct change_set *set, const struct chosen *chosen, struct review_discarded *ret)
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

static int discard_locked(struct review_lock *review_lock, const struct review_choice *choice, const char *actor,
                          struct review_discarded *ret, struct err *err)
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    autodone(chosen) struct chosen chosen = { 0 };
    struct change_set_options options = { .prefix = review_lock->prefix };
    int r = review_lock_hold_to_drop(review_lock, err);

    if (r == 0)
        r = change_set_load(review_lock->delta_path, &options, &set, err);
    if (r == 0)
        r = chosen_make(choice, &set, review_lock->row.id, ret, &chosen, err);
    if (r < 0)
        return r;
    chosen_select(&chosen, &set);
    if (chosen.count > 0)
        r = drop_chosen_changes(review_lock, &chosen, err);
    if (r < 0)
        return r;
    count_discarded(&set, &chosen, ret);
    if (ret->file_count > 0)
        review_tell(
            review_lock->service, review_lock->caller, &review_lock->row, "sandbox_discarded", actor,
            json_pack("{s:I, s:I}", "discarded", (json_int_t) ret->file_count, "remaining", (json_int_t) ret->remaining));
    return 0;
}

int reviews_discard(struct service *service, const struct caller *caller, const char *id, const struct review_choice *choice,
                    const struct review_decision *decision, struct review_discarded *ret, struct err *err)
{
    autodone(review_lock) struct review_lock review_lock = REVIEW_LOCK_NONE;
    int r = review_lock_begin(service, caller, id, decision->version, BIT(ACTIVE) | BIT(STOPPED), "discarded from",
                              &review_lock, err);

    if (r < 0)
        return r;
    review_lock.may_stop = decision->may_stop;
    sandboxes_touch(service, id);
    return discard_locked(&review_lock, choice, decision->actor, ret, err);
}

/* ---- conflicts and rebase ---- */

void review_conflict_report_done(struct review_conflict_report *report)
{
    sandbox_row_done(&report->row);
    free(report->prefix);
    conflict_report_done(&report->report);
    *report = REVIEW_CONFLICT_REPORT_NONE;
}

int reviews_conflicts(struct service *service, const struct caller *caller, const char *id, struct review_conflict_report *ret,
                      struct err *err)
{
    autofree char *delta_path = sandboxes_path(service, id, "delta");
    int r = service_find_sandbox(service, caller, id, &ret->row, err);

    if (r < 0)
        return r;
    if (SANDBOX_STATE_BIT(sandbox_row_state(&ret->row)) & (BIT(CREATING) | BIT(DELETED) | BIT(ERROR)))
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox %s is %s, and has no changes to compare",
                                      id, sandbox_state_name(sandbox_row_state(&ret->row))),
                              "INVALID_STATE");
    ret->prefix = review_prefix(&ret->row);
    read_head(caller, &ret->row, ret->head);
    return conflict_report_make(delta_path, NULL, &ret->report, err);
}

void review_rebased_done(struct review_rebased *rebased)
{
    sandbox_row_done(&rebased->row);
    free(rebased->prefix);
    rebase_done(&rebased->rebase);
    *rebased = REVIEW_REBASED_NONE;
}

/* Writes texts first, then the notes: see review/rebase.h. */
static int rebase_locked(struct review_lock *review_lock, enum rebase_strategy strategy, struct review_rebased *ret,
                         struct err *err)
{
    int r = 0;

    /* Its files are made anew from the copy, which would not have the merged texts. */
    if (review_lock_is_copy(review_lock) && strategy != REBASE_REGENERATE)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP,
                                      "a sandbox on a copy cannot be rebased; approve what merges, or force"),
                              "DRIVER_CANNOT");
    if (strategy != REBASE_REGENERATE)
        r = review_lock_hold_to_drop(review_lock, err);
    if (r == 0)
        r = rebase_plan(review_lock->delta_path, NULL, strategy, &ret->rebase, err);
    if (r < 0 || strategy == REBASE_REGENERATE)
        return r;
    r = review_lock_release(review_lock, ret->rebase.changes, ret->rebase.change_count, err);
    return r < 0 ? r : rebase_finish(&ret->rebase, err);
}

static int update_base_commit(struct review_lock *review_lock, struct review_rebased *ret, struct err *err)
{
    snprintf(ret->old_head, sizeof(ret->old_head), "%s", review_lock->row.base_commit ? review_lock->row.base_commit : "");
    read_head(review_lock->caller, &review_lock->row, ret->new_head);
    if (strcmp(ret->old_head, ret->new_head) == 0)
        return 0;
    free(review_lock->row.base_commit);
    review_lock->row.base_commit = xdup(ret->new_head);
    return sandbox_row_update(review_lock->service->store, &review_lock->row, err);
}

int reviews_rebase(struct service *service, const struct caller *caller, const char *id, enum rebase_strategy strategy,
                   const struct review_decision *decision, struct review_rebased *ret, struct err *err)
{
    autodone(review_lock) struct review_lock review_lock = REVIEW_LOCK_NONE;
    int r = review_lock_begin(service, caller, id, decision->version, BIT(ACTIVE) | BIT(STOPPED), "rebased", &review_lock, err);

    if (r < 0)
        return r;
    review_lock.may_stop = decision->may_stop;
    sandboxes_touch(service, id);
    ret->prefix = xdup(review_lock.prefix);
    r = rebase_locked(&review_lock, strategy, ret, err);
    if (r == 0)
        r = update_base_commit(&review_lock, ret, err);
    if (r < 0)
        return r;
    review_tell(service, caller, &review_lock.row, "sandbox_rebased", decision->actor,
                json_pack("{s:I, s:I, s:s, s:s}", "moved", (json_int_t) ret->rebase.moved_count, "conflicts",
                          (json_int_t) ret->rebase.conflict_count, "previousBaseHash", ret->old_head, "newBaseHash",
                          ret->new_head));
    get_fresh_row(&review_lock, &ret->row);
    return 0;
}

/* ---- undo ---- */

void review_undone_done(struct review_undone *undone)
{
    sandbox_row_done(&undone->row);
    free(undone->prefix);
    undo_done(&undone->undo);
    *undone = (struct review_undone){ 0 };
}

/* Finds the approval of that id, or the last one that was neither undone nor is an undo. undo_run() reports a missing one. */
static int find_approval(const char *delta_path, const char *id, struct review_undone *ret, struct err *err)
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

static int undo_locked(struct review_lock *review_lock, bool is_dry, const char *actor, struct review_undone *ret,
                       struct err *err)
{
    autodone(buf) struct buf follow_up = BUF_EMPTY;
    struct undo_options options = { .is_dry = is_dry, .codebase = review_lock_lands_in(review_lock), .follow_up = &follow_up };
    struct err later = ERR_NONE;
    int r = review_lock_hold(review_lock, err);

    options.is_held = review_lock_is_locked(review_lock);
    if (r < 0)
        return r;
    review_follow_up_write(review_lock, &(struct review_follow_up){ .actor = actor }, NULL, &follow_up);
    r = undo_run(review_lock->delta_path, ret->undoes, &options, &ret->undo, err);
    if (is_dry || r != 0)
        return r;
    if (review_record_finish(review_lock, ret->undo.id, NULL, &later) < 0) {
        /* The undo is applied. The recovery that completes it also writes the event. */
        snprintf(ret->note, sizeof(ret->note), "all is undone, but that could not be noted yet, which is tried again: %s",
                 later.text);
        review_record_left(review_lock, &later);
        return 0;
    }
    review_tell(review_lock->service, review_lock->caller, &review_lock->row, "sandbox_undone", actor,
                json_pack("{s:s, s:s, s:I}", "approvalId", ret->undoes, "undoId", ret->undo.id, "files",
                          (json_int_t) ret->undo.done_count));
    return 0;
}

int reviews_undo(struct service *service, const struct caller *caller, const char *id, const char *approval_id, bool is_dry,
                 const struct review_decision *decision, struct review_undone *ret, struct err *err)
{
    autodone(review_lock) struct review_lock review_lock = REVIEW_LOCK_NONE;
    int r = review_lock_begin(service, caller, id, decision->version, BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED), "undone",
                              &review_lock, err);

    if (r < 0)
        return r;
    review_lock.may_stop = decision->may_stop;
    sandboxes_touch(service, id);
    ret->prefix = xdup(review_lock.prefix);
    r = find_approval(review_lock.delta_path, approval_id, ret, err);
    if (r == 0)
        r = undo_locked(&review_lock, is_dry, decision->actor, ret, err);
    if (r >= 0)
        get_fresh_row(&review_lock, &ret->row);
    return r;
}
