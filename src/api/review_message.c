#include "api/review_message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "review/acknowledge.h"
#include "review/decision.h"
#include "review/diff_text.h"
#include "review/file_id.h"

#define CONFLICTS_BYTES ((size_t) 256 << 10) /* of one file's */
#define NAMES_MAX 100000
#define BRIEF_OUTPUT_BYTES 500 /* of all hooks together: a failure is sent in gRPC's trailers, whose size clients limit */

/* The enums of the messages are those of the code with UNSPECIFIED in front. */
_Static_assert((int) SANDBOX__V1__CHANGE_KIND__CHANGE_KIND_RENAMED == FILE_CHANGE_RENAMED + 1, "kinds");
_Static_assert((int) SANDBOX__V1__MERGE_STATE__MERGE_STATE_CONFLICT == RECONCILE_CONFLICT + 1, "states");
_Static_assert((int) SANDBOX__V1__ACCEPTANCE_STATUS__ACCEPTANCE_STATUS_BINARY_IGNORED == ACCEPTANCE_BINARY_IGNORED + 1,
               "acceptance");
_Static_assert((int) SANDBOX__V1__ACKNOWLEDGE_REASON__ACKNOWLEDGE_REASON_PACKAGE == ACKNOWLEDGE_PACKAGE, "acknowledgement");
_Static_assert((int) SANDBOX__V1__VERDICT__VERDICT_UNACKNOWLEDGED == REVIEW_VERDICT_UNACKNOWLEDGED + 1, "verdicts");
_Static_assert((int) SANDBOX__V1__HOOK_STATUS__HOOK_STATUS_NOT_RUN == HOOK_NOT_RUN + 1, "hooks");

Sandbox__V1__ChangeKind make_kind(enum file_change_kind kind)
{
    return (Sandbox__V1__ChangeKind) (kind + 1);
}

Sandbox__V1__ChangeKind make_kind_of_name(const char *name)
{
    for (int kind = FILE_CHANGE_ADDED; kind <= FILE_CHANGE_RENAMED; kind++) {
        if (strcmp(name, file_change_kind_name((enum file_change_kind) kind)) == 0)
            return make_kind((enum file_change_kind) kind);
    }
    return SANDBOX__V1__CHANGE_KIND__CHANGE_KIND_UNSPECIFIED;
}

void set_change_paths(char **id, char **path, char **scope_path, const char *sandbox_id, const char *prefix,
                      const char *change_path)
{
    autofree char *whole = *prefix ? xprintf("%s/%s", prefix, change_path) : xdup(change_path);
    char file_id[FILE_ID_LEN + 1] = "";

    file_id_make(sandbox_id, change_path, file_id);
    *id = xdup(file_id);
    *path = make_string(whole);
    *scope_path = make_string(change_path);
}

/* ---- changes ---- */

char *make_change_hash(const struct file_change *change)
{
    char hash[CHANGE_HASH_TEXT_MAX], drift[CHANGE_HASH_TEXT_MAX];

    if (!change->is_hashed || change->failure)
        return NULL;
    change_hash_text(change->hash, hash);
    drift_text(&change->drift, drift);
    return xprintf("%s%s%s", hash, *drift ? "-" : "", drift);
}

void add_change_receipt(struct buf *out, const char *sandbox_id, const struct file_change *change)
{
    autofree char *hash = change->is_dir ? NULL : make_change_hash(change);
    char id[FILE_ID_LEN + 1] = "";

    if (!hash)
        return;
    file_id_make(sandbox_id, change->scope_path, id);
    buf_addf(out, "0 %s %s\n", id, hash);
}

static void set_acceptance(Sandbox__V1__FileChange *out, const struct review_about *about, const struct file_change *change)
{
    struct acceptance_verdict verdict = decision_check_acceptance(about->acceptance, change);

    out->acceptance = (Sandbox__V1__AcceptanceStatus) (verdict.status + 1);
    out->acceptance_reason = make_string(verdict.reason);
    out->acceptance_rule = make_string(verdict.rule);
}

Sandbox__V1__FileChange *make_file_change(const struct review_about *about, const struct file_change *change, bool is_read)
{
    Sandbox__V1__FileChange *out = message_new(&sandbox__v1__file_change__descriptor);

    set_change_paths(&out->id, &out->path, &out->scope_path, about->sandbox_id, about->prefix, change->scope_path);
    out->kind = make_kind(change->kind);
    if (change->kind == FILE_CHANGE_RENAMED) {
        out->old_path = make_string(change->old_path);
        out->old_scope_path = make_string(change->from->path);
        out->similarity = (int32_t) change->percent;
    }
    out->old_mode = change->old_mode;
    out->new_mode = change->new_mode;
    out->old_size = (int64_t) change->old_bytes;
    out->new_size = (int64_t) change->new_bytes;
    out->old_symlink_target = make_string(change->old_target);
    out->new_symlink_target = make_string(change->new_target);
    out->measured = change->is_measured;
    out->lines_added = (int32_t) change->added;
    out->lines_removed = (int32_t) change->removed;
    out->binary = change->is_binary;
    out->too_large = change->is_too_large;
    out->whole_only = change->is_whole_only;
    set_acceptance(out, about, change);
    out->acknowledge = (Sandbox__V1__AcknowledgeReason) change->acknowledge;
    if (change->acknowledge != ACKNOWLEDGE_NOTHING)
        out->acknowledge_text = make_string(acknowledge_text(change->acknowledge));
    if (is_read && !change->failure)
        out->merge_state = (Sandbox__V1__MergeState) (change->state + 1);
    if (is_read && change->state == RECONCILE_CONFLICT)
        out->conflict = make_string(change->reason);
    if (change->failure)
        out->error = make_string(strerror(-change->failure));
    return out;
}

/* ---- hunks ---- */

Sandbox__V1__Hunk *add_hunk(Sandbox__V1__FileChange *change, size_t *cap, const struct hunk *hunk)
{
    Sandbox__V1__Hunk *out = message_new(&sandbox__v1__hunk__descriptor);

    out->id = xdup(hunk->id);
    out->header = make_string(hunk->header);
    out->old_start = (int32_t) hunk->old_start;
    out->old_lines = (int32_t) hunk->old_lines;
    out->new_start = (int32_t) hunk->new_start;
    out->new_lines = (int32_t) hunk->new_lines;
    out->lines_added = (int32_t) hunk->added;
    out->lines_removed = (int32_t) hunk->removed;
    vec_room(&change->hunks, cap, change->n_hunks);
    change->hunks[change->n_hunks++] = out;
    return out;
}

static char *make_safe(const char *bytes, size_t len)
{
    autodone(buf) struct buf safe = BUF_EMPTY;

    diff_text_add_safe(&safe, bytes, len);
    return make_text(safe.data ? safe.data : "", safe.len);
}

/* False: not all lines fit. */
static bool add_lines(Sandbox__V1__Hunk *out, const struct buf *lines, size_t *room)
{
    size_t cap = 0;

    for (size_t at = 0; at < lines->len;) {
        const char *line = lines->data + at, *end = memchr(line, '\n', lines->len - at);
        size_t len = end ? (size_t) (end - line) : lines->len - at;

        if (len + 8 > *room)
            return false;
        *room -= len + 8;
        vec_room(&out->lines, &cap, out->n_lines);
        out->lines[out->n_lines++] = make_safe(line, len);
        at += len + (end != NULL);
    }
    return true;
}

bool add_hunks(Sandbox__V1__FileChange *change, const struct hunk_list *hunks, size_t room)
{
    size_t cap = 0;

    for (size_t i = 0; i < hunks->count; i++) {
        if (room < 256)
            return false;
        room -= 256;
        if (!add_lines(add_hunk(change, &cap, &hunks->items[i]), &hunks->items[i].lines, &room))
            return false;
    }
    return true;
}

Sandbox__V1__ConflictHunk **make_conflicts(const struct threeway *merge, size_t *ret_count)
{
    size_t bytes = 0;

    *ret_count = 0;
    for (size_t i = 0; i < merge->hunk_count; i++)
        bytes += merge->hunks[i].project.len + merge->hunks[i].base.len + merge->hunks[i].agent.len + 64;
    if (merge->hunk_count == 0 || bytes > CONFLICTS_BYTES)
        return NULL;
    Sandbox__V1__ConflictHunk **list = xalloc(merge->hunk_count * sizeof(*list));
    for (size_t i = 0; i < merge->hunk_count; i++) {
        const struct threeway_hunk *hunk = &merge->hunks[i];
        Sandbox__V1__ConflictHunk *out = list[i] = message_new(&sandbox__v1__conflict_hunk__descriptor);

        out->line = (int32_t) hunk->line;
        out->project = make_safe(hunk->project.data ? hunk->project.data : "", hunk->project.len);
        out->merge_base = make_safe(hunk->base.data ? hunk->base.data : "", hunk->base.len);
        out->agent = make_safe(hunk->agent.data ? hunk->agent.data : "", hunk->agent.len);
    }
    *ret_count = merge->hunk_count;
    return list;
}

/* ---- verdicts ---- */

static void set_approved(Sandbox__V1__FileVerdict *out, const struct approve_file *file, bool is_brief)
{
    if (file->outcome == APPROVE_UNACKNOWLEDGED)
        out->acknowledge = (Sandbox__V1__AcknowledgeReason) file->acknowledge;
    if (file->outcome == APPROVE_CONFLICT || file->outcome == APPROVE_STALE)
        out->reason = make_string(file->reason);
    if (file->outcome == APPROVE_CONFLICT && !is_brief)
        out->conflicts = make_conflicts(&file->merge, &out->n_conflicts);
    out->merged = file->state == RECONCILE_MERGES;
    out->hunks_applied = (int32_t) file->hunks_taken;
    out->hunks_total = (int32_t) file->hunk_count;
}

Sandbox__V1__FileVerdict *make_verdict(const struct review_approved *approved, size_t place, bool is_brief)
{
    const struct file_change *change = &approved->set.items[place];
    Sandbox__V1__FileVerdict *out = message_new(&sandbox__v1__file_verdict__descriptor);
    size_t prefix_len = strlen(change->path) - strlen(change->scope_path);
    autofree char *prefix = xdupn(change->path, prefix_len > 0 ? prefix_len - 1 : 0);

    set_change_paths(&out->id, &out->path, &out->scope_path, approved->row.id ? approved->row.id : "", prefix,
                     change->scope_path);
    out->kind = make_kind(change->kind);
    out->verdict = (Sandbox__V1__Verdict) (approved->verdicts[place] + 1);
    out->acceptance = (Sandbox__V1__AcceptanceStatus) (decision_check_acceptance(&approved->acceptance, change).status + 1);
    if (approved->files[place])
        set_approved(out, approved->files[place], is_brief);
    return out;
}

Sandbox__V1__HookResult **make_hooks(const struct hook_results *results, bool is_brief, size_t *ret_count)
{
    Sandbox__V1__HookResult **list = results->count > 0 ? xalloc(results->count * sizeof(*list)) : NULL;
    size_t room = is_brief ? BRIEF_OUTPUT_BYTES : SIZE_MAX;

    for (size_t i = 0; i < results->count; i++) {
        const struct hook_result *result = &results->items[i];
        Sandbox__V1__HookResult *out = list[i] = message_new(&sandbox__v1__hook_result__descriptor);

        out->name = make_string(result->name);
        out->source = make_string(hook_source_name(result->source));
        out->required = result->is_required;
        out->status = (Sandbox__V1__HookStatus) (result->status + 1);
        if (result->status == HOOK_NOT_RUN)
            continue;
        out->exit_code = result->exit_code;
        out->duration_ms = result->duration_ns / 1000000;
        size_t len = is_brief && result->status == HOOK_PASSED ? 0 : result->output.len < room ? result->output.len : room;
        out->output_truncated = result->is_cut || len < result->output.len;
        out->output = len > 0 ? make_text(result->output.data + result->output.len - len, len) : xdup("");
        room -= is_brief ? len : 0;
    }
    *ret_count = results->count;
    return list;
}

/* ---- requests ---- */

void review_selection_done(struct review_selection *selection)
{
    for (size_t i = 0; i < selection->choice.hunk_count; i++)
        free(selection->ranges[i]);
    free(selection->ranges);
    free(selection->hunks);
    *selection = (struct review_selection){ 0 };
}

static int take_ranges(const Sandbox__V1__HunkSelection *message, struct selection_range *ret, struct err *err)
{
    for (size_t i = 0; i < message->n_ranges; i++) {
        const Sandbox__V1__LineRange *range = message->ranges[i];

        if (range->first < 1 || range->last < range->first)
            return err_invalid(err, "a range needs a first line, from 1, and a last one that is not before it");
        ret[i] = (struct selection_range){ (uint32_t) range->first, (uint32_t) range->last };
    }
    return 0;
}

static int take_hunks(const Sandbox__V1__HunkSelection *message, struct review_selection *ret, struct err *err)
{
    size_t at = ret->choice.hunk_count++;

    ret->ranges[at] = xalloc((message->n_ranges + 1) * sizeof(**ret->ranges));
    ret->hunks[at] = (struct review_hunks){ .file_id = message->file_id,
                                            .path = message->path,
                                            .ids = (const char *const *) message->hunk_ids,
                                            .id_count = message->n_hunk_ids,
                                            .ranges = ret->ranges[at],
                                            .range_count = message->n_ranges };
    if (!*message->file_id == !*message->path)
        return err_invalid(err, "hunks need a path or a file_id, not both");
    if (message->n_hunk_ids + message->n_ranges == 0)
        return err_invalid(err, "hunks need hunk_ids or ranges; name the file in paths to take it whole");
    return take_ranges(message, ret->ranges[at], err);
}

int review_selection_take(const Sandbox__V1__Selection *message, struct review_selection *ret, struct err *err)
{
    struct review_choice *choice = &ret->choice;
    size_t named = message ? message->n_paths + message->n_file_ids + message->n_hunks : 0;
    int r = 0;

    if (!message || (!message->all && named == 0))
        return err_invalid(err, "nothing is selected: selection needs all, paths, file_ids or hunks");
    if (message->all && named > 0)
        return err_invalid(err, "selection has all, and names some");
    if (named > NAMES_MAX)
        return err_invalid(err, "selection has more than %d names", NAMES_MAX);
    ret->hunks = xalloc((message->n_hunks + 1) * sizeof(*ret->hunks));
    ret->ranges = xalloc((message->n_hunks + 1) * sizeof(*ret->ranges));
    for (size_t i = 0; r == 0 && i < message->n_hunks; i++)
        r = take_hunks(message->hunks[i], ret, err);
    choice->paths = (const char *const *) message->paths;
    choice->path_count = message->n_paths;
    choice->file_ids = (const char *const *) message->file_ids;
    choice->file_id_count = message->n_file_ids;
    choice->hunks = ret->hunks;
    return r;
}
