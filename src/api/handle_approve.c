/* Applying what was reviewed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/review_message.h"
#include "base/mem.h"
#include "review/acknowledge.h"

#define NAMES_MAX 100000
#define COMMIT_MESSAGE_BYTES_MAX ((size_t) 64 << 10)

/* Owns the lists of a request. */
struct approve_wanted {
    struct review_approval approval;
    struct review_selection selection;
    const char **words; /* owned array of what the request acknowledges */
    json_t *hashes;     /* owned */
};

static void approve_wanted_done(struct approve_wanted *wanted)
{
    review_selection_done(&wanted->selection);
    free(wanted->words);
    json_decref(wanted->hashes);
}

static int approve_take_acknowledged(const Sandbox__V1__ApproveRequest *in, struct approve_wanted *ret, struct err *err)
{
    struct review_approval *approval = &ret->approval;

    if (in->n_acknowledge_reasons > NAMES_MAX || in->n_acknowledge_files > NAMES_MAX)
        return err_invalid(err, "more than %d acknowledgements", NAMES_MAX);
    ret->words = xalloc((in->n_acknowledge_reasons + in->n_acknowledge_files + 1) * sizeof(*ret->words));
    for (size_t i = 0; i < in->n_acknowledge_reasons; i++) {
        int reason = (int) in->acknowledge_reasons[i];
        if (reason <= ACKNOWLEDGE_NOTHING || reason > ACKNOWLEDGE_PACKAGE)
            return err_invalid(err, "acknowledge_reasons: %d is not known", reason);
        ret->words[approval->acknowledged_count++] = acknowledge_name((enum acknowledge) reason);
    }
    for (size_t i = 0; i < in->n_acknowledge_files; i++)
        ret->words[approval->acknowledged_count++] = in->acknowledge_files[i];
    approval->acknowledged = ret->words;
    approval->acknowledges_all = in->acknowledge_all;
    return 0;
}

static int approve_take_hashes(const Sandbox__V1__ApproveRequest *in, struct approve_wanted *ret, struct err *err)
{
    if (in->n_file_hashes == 0)
        return 0;
    if (*in->diff_hash)
        return err_invalid(err, "diff_hash and file_hashes are both given");
    if (in->n_file_hashes > NAMES_MAX)
        return err_invalid(err, "file_hashes has more than %d entries", NAMES_MAX);
    ret->hashes = json_object();
    for (size_t i = 0; i < in->n_file_hashes; i++)
        json_object_set_new(ret->hashes, in->file_hashes[i]->key, json_string(in->file_hashes[i]->value));
    ret->approval.hashes = ret->hashes;
    return 0;
}

static int approve_take_request(const Sandbox__V1__ApproveRequest *in, struct approve_wanted *ret, struct err *err)
{
    int r = review_selection_take(in->selection, &ret->selection, err);

    ret->approval = (struct review_approval){
        .choice = ret->selection.choice,
        .diff_hash = in->diff_hash,
        .is_forced = in->force,
        .is_dry = in->dry_run,
        .overrides_acceptance = in->override_acceptance,
        .creates_commit = in->commit,
        .runs_hooks = in->run_hooks,
        .skips_hooks = in->skip_hooks,
        .may_stop = in->allow_stop,
        .actor = in->actor,
        .message = in->commit_message,
        .version = in->expected_version,
        .umask = in->umask & 0777,
    };
    if (r == 0)
        r = approve_take_acknowledged(in, ret, err);
    if (r == 0)
        r = approve_take_hashes(in, ret, err);
    if (r == 0 && in->run_hooks && !in->dry_run)
        r = err_invalid(err, "run_hooks is for a dry run: otherwise they always run");
    if (r == 0 && in->run_hooks && in->skip_hooks)
        r = err_invalid(err, "run_hooks and skip_hooks contradict each other");
    if (r == 0 && *in->commit_message && !in->commit)
        r = err_invalid(err, "commit_message is given without commit");
    if (r == 0 && strlen(in->commit_message) > COMMIT_MESSAGE_BYTES_MAX)
        r = err_invalid(err, "commit_message has more than %zu bytes", COMMIT_MESSAGE_BYTES_MAX);
    if (r == 0 && in->expected_version < 0)
        r = err_invalid(err, "expected_version must not be negative");
    return r;
}

/* ---- the answer ---- */

static bool verdict_stops(enum review_verdict verdict)
{
    return verdict >= REVIEW_VERDICT_CONFLICT;
}

static void approve_add_verdicts(Sandbox__V1__ApproveResponse *out, const struct review_approved *approved)
{
    size_t cap = 0, bytes = 0;

    for (size_t i = 0; approved->verdicts && i < approved->set.count; i++) {
        Sandbox__V1__FileVerdict *file;

        if (approved->set.items[i].is_dir || approved->verdicts[i] == REVIEW_VERDICT_LEFT)
            continue;
        if (bytes >= REVIEW_ANSWER_BYTES) {
            out->files_truncated = true;
            break;
        }
        file = make_verdict(approved, i, false);
        bytes += protobuf_c_message_get_packed_size(&file->base);
        vec_room(&out->files, &cap, out->n_files);
        out->files[out->n_files++] = file;
    }
}

static Sandbox__V1__ApproveResponse *make_approve_response(const struct request *request,
                                                           const struct review_approved *approved)
{
    Sandbox__V1__ApproveResponse *out = message_new(&sandbox__v1__approve_response__descriptor);

    if (approved->row.id)
        out->sandbox = make_sandbox_of_row(request->service, &approved->row);
    out->applied = (int32_t) approved->applied;
    out->remaining = (int32_t) approved->remaining;
    approve_add_verdicts(out, approved);
    out->approval_id = xdup(approved->approve.id);
    out->diff_hash = xdup(approved->hash);
    out->commit_hash = make_string(approved->commit_hash);
    out->commit_error = make_string(approved->commit_error);
    out->note = make_string(approved->note);
    out->hooks = make_hooks(&approved->hooks, false, &out->n_hooks);
    out->applied_at = make_timestamp(approved->applied_ns);
    return out;
}

/* Adds what stopped the approval, as far as it fits beside the reason. */
static void approve_set_failure(struct call *call, const struct review_approved *approved)
{
    Sandbox__V1__ReviewFailure *out = message_new(&sandbox__v1__review_failure__descriptor);
    size_t room = call_failure_room(call), bytes = 0, cap = 0;

    out->hooks = make_hooks(&approved->hooks, room == CALL_FAILURE_BYTES, &out->n_hooks);
    for (size_t i = 0; approved->verdicts && i < approved->set.count; i++) {
        Sandbox__V1__FileVerdict *file;

        if (approved->set.items[i].is_dir || !verdict_stops(approved->verdicts[i]))
            continue;
        out->total++;
        if (bytes >= room)
            continue;
        file = make_verdict(approved, i, true);
        bytes += protobuf_c_message_get_packed_size(&file->base) + 3;
        if (bytes >= room) {
            protobuf_c_message_free_unpacked(&file->base, NULL);
            continue;
        }
        vec_room(&out->files, &cap, out->n_files);
        out->files[out->n_files++] = file;
    }
    call_take_failure(call, &out->base);
}

/* Reasons that lie in the changes and not in the request. A dry run puts them into its answer. */
static bool approve_is_refusal(const char *reason)
{
    static const char *const reasons[] = { "CONFLICTS",        "DIFF_STALE",      "DIFF_NOT_SERVED", "NOT_ACCEPTED",
                                           "UNACKNOWLEDGED",   "FOREIGN_CHANGES", "HUNK_UNKNOWN",    "HOOK_FAILED",
                                           "HOOKS_UNREADABLE", "NO_REPOSITORY" };

    for (size_t i = 0; reason && i < ARRAY_LEN(reasons); i++)
        if (strcmp(reasons[i], reason) == 0)
            return true;
    return false;
}

int handle_approve(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ApproveRequest *in = message;
    autodone(approve_wanted) struct approve_wanted wanted = { 0 };
    autodone(review_approved) struct review_approved approved = REVIEW_APPROVED_NONE;
    Sandbox__V1__ApproveResponse *out;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = approve_take_request(in, &wanted, err);
    if (r < 0)
        return r;
    r = reviews_approve(request->service, &request->caller, id, &wanted.approval, &approved, err);
    if (r < 0 && !approve_is_refusal(err->reason))
        return r;
    if (r < 0 && !in->dry_run) {
        approve_set_failure(request->call, &approved);
        return r;
    }
    out = make_approve_response(request, &approved);
    if (r < 0) {
        out->refusal = message_new(&sandbox__v1__refusal__descriptor);
        out->refusal->reason = xdup(err->reason);
        out->refusal->message = make_string(err->text);
    }
    *ret = &out->base;
    return 0;
}
