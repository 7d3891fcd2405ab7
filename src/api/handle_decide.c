/* Decisions about changes other than approval, and their conflicts with the project. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/review_message.h"
#include "base/clock.h"
#include "base/mem.h"

#define PATHS_MAX 10000

_Static_assert((int) SANDBOX__V1__REBASE_STRATEGY__REBASE_STRATEGY_THEIRS == REBASE_THEIRS + 1, "strategies");
_Static_assert((int) SANDBOX__V1__REBASE_OUTCOME__REBASE_OUTCOME_CONFLICT == REBASE_CONFLICT + 1, "outcomes");

static int take_expected_version(int64_t given, struct err *err)
{
    return given < 0 ? err_invalid(err, "expected_version must not be negative") : 0;
}

int handle_reject(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__RejectRequest *in = message;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = take_expected_version(in->expected_version, err);
    if (r == 0)
        r = reviews_reject(request->service, &request->caller, id, in->actor, in->expected_version, &row, err);
    if (r == 0)
        *ret = &make_sandbox_of_row(request->service, &row)->base;
    return r;
}

/* ---- discard ---- */

int handle_discard(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DiscardRequest *in = message;
    const struct review_decision decision = { .actor = in->actor, .version = in->expected_version, .may_stop = in->allow_stop };
    autodone(review_selection) struct review_selection selection = { 0 };
    autodone(review_discarded) struct review_discarded discarded = { 0 };
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = take_expected_version(in->expected_version, err);
    if (r == 0)
        r = review_selection_take(in->selection, &selection, err);
    if (r == 0 && selection.choice.hunk_count > 0)
        r = err_invalid(err, "changes are discarded by whole files; hunks stay until they are approved");
    if (r == 0)
        r = reviews_discard(request->service, &request->caller, id, &selection.choice, &decision, &discarded, err);
    if (r < 0)
        return r;
    Sandbox__V1__DiscardResponse *out = message_new(&sandbox__v1__discard_response__descriptor);
    out->discarded = (int32_t) discarded.file_count;
    out->remaining = (int32_t) discarded.remaining;
    out->n_scope_paths = discarded.file_count < PATHS_MAX ? discarded.file_count : PATHS_MAX;
    out->scope_paths = make_texts(discarded.files, out->n_scope_paths);
    out->n_unknown = discarded.unknown_count < PATHS_MAX ? discarded.unknown_count : PATHS_MAX;
    out->unknown = make_texts(discarded.unknown, out->n_unknown);
    *ret = &out->base;
    return 0;
}

/* ---- undo ---- */

/* The project has changed since: adds the paths, as far as they fit beside the reason. */
static int undo_refuse(const struct request *request, const char *id, const struct review_undone *undone, struct err *err)
{
    Sandbox__V1__ReviewFailure *out = message_new(&sandbox__v1__review_failure__descriptor);
    size_t room = call_failure_room(request->call), bytes = 0, cap = 0;

    out->total = (int32_t) undone->undo.moved_count;
    for (size_t i = 0; i < undone->undo.moved_count; i++) {
        Sandbox__V1__FileVerdict *file = message_new(&sandbox__v1__file_verdict__descriptor);

        set_change_paths(&file->id, &file->path, &file->scope_path, id, undone->prefix, undone->undo.moved[i]);
        file->verdict = SANDBOX__V1__VERDICT__VERDICT_STALE;
        bytes += protobuf_c_message_get_packed_size(&file->base) + 3;
        if (bytes >= room) {
            protobuf_c_message_free_unpacked(&file->base, NULL);
            break;
        }
        vec_room(&out->files, &cap, out->n_files);
        out->files[out->n_files++] = file;
    }
    call_take_failure(request->call, &out->base);
    return err_set_reason(err,
                          err_set(err, ERR_FAILED_PRECONDITION, -ESTALE,
                                  "%zu paths have changed since the approval; nothing was undone", undone->undo.moved_count),
                          "PROJECT_MOVED");
}

int handle_undo_approval(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__UndoApprovalRequest *in = message;
    const struct review_decision decision = { .actor = in->actor, .version = in->expected_version, .may_stop = in->allow_stop };
    autodone(review_undone) struct review_undone undone = { .undo = UNDO_NONE };
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = take_expected_version(in->expected_version, err);
    if (r == 0)
        r = reviews_undo(request->service, &request->caller, id, in->approval_id, in->dry_run, &decision, &undone, err);
    if (r > 0)
        return undo_refuse(request, id, &undone, err);
    if (r < 0)
        return r;
    Sandbox__V1__UndoApprovalResponse *out = message_new(&sandbox__v1__undo_approval_response__descriptor);
    if (undone.row.id)
        out->sandbox = make_sandbox_of_row(request->service, &undone.row);
    out->approval_id = xdup(undone.undoes);
    out->undo_id = xdup(undone.undo.id);
    out->undone = (int32_t) (in->dry_run ? undone.path_count : undone.undo.done_count);
    out->note = make_string(undone.note);
    *ret = &out->base;
    return 0;
}

/* Newest first. A token is the id of the last approval of its page. */
int handle_list_approvals(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListApprovalsRequest *in = message;
    autofree struct undo_entry *entries = NULL;
    size_t max = take_bounded_page_size(in->page_size), count = 0, at;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = reviews_approvals(request->service, &request->caller, id, &entries, &count, err);
    if (r < 0)
        return r;
    for (at = count; *in->page_token && at > 0 && strcmp(entries[at - 1].id, in->page_token) != 0;)
        at--;
    if (*in->page_token && at-- == 0)
        return err_invalid(err, "page_token is not of this list");
    Sandbox__V1__ListApprovalsResponse *out = message_new(&sandbox__v1__list_approvals_response__descriptor);
    out->approvals = xalloc(max * sizeof(*out->approvals));
    for (; at > 0 && out->n_approvals < max; at--) {
        const struct undo_entry *entry = &entries[at - 1];
        Sandbox__V1__Approval *approval = out->approvals[out->n_approvals++] = message_new(&sandbox__v1__approval__descriptor);

        approval->id = xdup(entry->id);
        approval->undoes = xdup(entry->undoes);
        approval->time = make_timestamp(entry->time_ns);
        approval->paths = (int32_t) entry->path_count;
        approval->undone = entry->is_undone;
    }
    if (at > 0)
        out->next_page_token = xdup(entries[at].id);
    *ret = &out->base;
    return 0;
}

/* ---- the project meanwhile ---- */

static Sandbox__V1__ComparedFile *make_compared(const struct review_conflict_report *found, const struct conflict_file *file)
{
    Sandbox__V1__ComparedFile *out = message_new(&sandbox__v1__compared_file__descriptor);

    set_change_paths(&out->id, &out->path, &out->scope_path, found->row.id, found->prefix, file->edit->path);
    out->state = (Sandbox__V1__MergeState) (file->state + 1);
    out->reason = make_string(file->reason);
    out->conflicts = make_conflicts(&file->merge, &out->n_conflicts);
    return out;
}

/* Adds the files that are in conflict, or those that are not. */
static void conflicts_add_files(Sandbox__V1__GetConflictsResponse *out, const struct review_conflict_report *found,
                                bool in_conflict, size_t *cap, size_t *bytes)
{
    for (size_t i = 0; i < found->report.edits.count; i++) {
        const struct conflict_file *file = &found->report.files[i];
        Sandbox__V1__ComparedFile *one;

        if ((file->state == RECONCILE_CONFLICT) != in_conflict ||
            (!in_conflict && (!file->has_moved || !edit_is_file(file->edit))))
            continue;
        if (*bytes >= REVIEW_ANSWER_BYTES) {
            out->files_truncated = true;
            return;
        }
        one = make_compared(found, file);
        *bytes += protobuf_c_message_get_packed_size(&one->base);
        vec_room(&out->files, cap, out->n_files);
        out->files[out->n_files++] = one;
    }
}

int handle_get_conflicts(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__GetConflictsRequest *in = message;
    autodone(review_conflict_report) struct review_conflict_report found = REVIEW_CONFLICT_REPORT_NONE;
    size_t cap = 0, bytes = 0;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = reviews_conflicts(request->service, &request->caller, id, &found, err);
    if (r < 0)
        return r;
    Sandbox__V1__GetConflictsResponse *out = message_new(&sandbox__v1__get_conflicts_response__descriptor);
    conflicts_add_files(out, &found, true, &cap, &bytes);
    conflicts_add_files(out, &found, false, &cap, &bytes);
    for (size_t i = 0; i < found.report.edits.count; i++)
        out->changed += edit_is_file(found.report.files[i].edit);
    out->moved = (int32_t) found.report.moved_count;
    out->conflicts = (int32_t) found.report.conflict_count;
    out->base_commit = make_string(found.row.base_commit);
    out->head_commit = make_string(found.head);
    out->head_moved = strcmp(out->base_commit, out->head_commit) != 0;
    out->checked_at = make_timestamp(clock_wall_ns());
    *ret = &out->base;
    return 0;
}

static void rebase_add_files(Sandbox__V1__RebaseResponse *out, const struct review_rebased *rebased)
{
    size_t cap = 0, bytes = 0;

    for (size_t i = 0; i < rebased->rebase.edits.count; i++) {
        const struct rebase_file *file = &rebased->rebase.files[i];
        Sandbox__V1__RebasedFile *one;

        if (file->outcome == REBASE_UNMOVED)
            continue;
        if (bytes >= REVIEW_ANSWER_BYTES) {
            out->files_truncated = true;
            return;
        }
        one = message_new(&sandbox__v1__rebased_file__descriptor);
        set_change_paths(&one->id, &one->path, &one->scope_path, rebased->row.id ? rebased->row.id : "", rebased->prefix,
                         file->edit->path);
        one->outcome = (Sandbox__V1__RebaseOutcome) (file->outcome + 1);
        one->reason = make_string(file->reason);
        one->conflicts = make_conflicts(&file->merge, &one->n_conflicts);
        bytes += protobuf_c_message_get_packed_size(&one->base);
        vec_room(&out->files, &cap, out->n_files);
        out->files[out->n_files++] = one;
    }
}

int handle_rebase(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__RebaseRequest *in = message;
    const struct review_decision decision = { .actor = in->actor, .version = in->expected_version, .may_stop = in->allow_stop };
    autodone(review_rebased) struct review_rebased rebased = REVIEW_REBASED_NONE;
    enum rebase_strategy strategy = in->strategy > 0 ? (enum rebase_strategy)(in->strategy - 1) : REBASE_REGENERATE;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = take_expected_version(in->expected_version, err);
    if (r == 0 && (in->strategy < 0 || in->strategy > SANDBOX__V1__REBASE_STRATEGY__REBASE_STRATEGY_THEIRS))
        r = err_invalid(err, "strategy %d is not known", (int) in->strategy);
    if (r == 0)
        r = reviews_rebase(request->service, &request->caller, id, strategy, &decision, &rebased, err);
    if (r < 0)
        return r;
    Sandbox__V1__RebaseResponse *out = message_new(&sandbox__v1__rebase_response__descriptor);
    if (rebased.row.id)
        out->sandbox = make_sandbox_of_row(request->service, &rebased.row);
    rebase_add_files(out, &rebased);
    out->moved = (int32_t) rebased.rebase.moved_count;
    out->conflicts = (int32_t) rebased.rebase.conflict_count;
    out->old_base_commit = make_string(rebased.old_head);
    out->new_base_commit = make_string(rebased.new_head);
    *ret = &out->base;
    return 0;
}

/* ---- the end of the work, and back ---- */

int handle_finish_sandbox(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    static const enum behavior_event events[] = { BEHAVIOR_RUN_COMPLETED, BEHAVIOR_RUN_COMPLETED, BEHAVIOR_RUN_FAILED,
                                                  BEHAVIOR_RUN_CANCELLED };
    const Sandbox__V1__FinishSandboxRequest *in = message;
    autodone(review_finish) struct review_finish finish = { .decision = "none" };
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = take_expected_version(in->expected_version, err);
    if (r == 0 && (in->outcome < 0 || (size_t) in->outcome >= ARRAY_LEN(events)))
        r = err_invalid(err, "outcome %d is not known", (int) in->outcome);
    if (r == 0)
        r = reviews_finish(request->service, &request->caller, id, events[in->outcome], in->actor, in->expected_version,
                           &finish, err);
    if (r < 0)
        return r;
    Sandbox__V1__FinishSandboxResponse *out = message_new(&sandbox__v1__finish_sandbox_response__descriptor);
    if (finish.row.id)
        out->sandbox = make_sandbox_of_row(request->service, &finish.row);
    out->decision = strcmp(finish.decision, "approved") == 0   ? SANDBOX__V1__SANDBOX_DECISION__SANDBOX_DECISION_APPROVED
                    : strcmp(finish.decision, "rejected") == 0 ? SANDBOX__V1__SANDBOX_DECISION__SANDBOX_DECISION_REJECTED
                                                               : SANDBOX__V1__SANDBOX_DECISION__SANDBOX_DECISION_OPEN;
    out->reason = make_string(finish.reason);
    out->approval_id = xdup(finish.approval_id);
    out->applied = (int32_t) finish.applied;
    *ret = &out->base;
    return 0;
}

int handle_restore_sandbox(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__RestoreSandboxRequest *in = message;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autodone(sandbox_conflicts) struct sandbox_conflicts conflicts = { 0 };
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = take_expected_version(in->expected_version, err);
    if (r == 0)
        r = sandboxes_restore(request->service, &request->caller, id, in->actor, in->expected_version, &row, &conflicts, err);
    if (r < 0)
        return tell_reserved(request, r, &conflicts);
    *ret = &make_sandbox_of_row(request->service, &row)->base;
    return 0;
}
