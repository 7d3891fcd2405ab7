/* Plans one edit of an approval. */
#include <errno.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "review/approve_int.h"

void planned_done(struct planned *planned)
{
    buf_done(&planned->bytes);
    buf_done(&planned->merge_base_bytes);
    free(planned->merge_base.kept);
    *planned = (struct planned){ 0 };
}

static void digest_number(struct sha256_ctx *sha, uint64_t number)
{
    uint8_t bytes[8];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t) (number >> (8 * i));
    sha256_update(sha, sizeof(bytes), bytes);
}

void planned_digest(const struct edit_list *edits, const struct planned *all, uint8_t ret[FILE_STATE_HASH_BYTES])
{
    struct sha256_ctx sha;

    sha256_init(&sha);
    for (size_t i = 0; i < edits->count; i++) {
        const struct planned *planned = &all[i];
        if (!planned->is_taken || !planned->has_change)
            continue;
        sha256_update(&sha, strlen(edits->items[i].path) + 1, (const uint8_t *) edits->items[i].path);
        digest_number(&sha, planned->now & (S_IFMT | 0777));
        digest_number(&sha, planned->is_mode_only);
        if (planned->now && !S_ISDIR(planned->now) && !planned->is_mode_only)
            sha256_update(&sha, sizeof(planned->hash), planned->hash);
    }
    sha256_digest(&sha, FILE_STATE_HASH_BYTES, ret);
}

static void copy_bytes(const struct buf *from, struct buf *to)
{
    buf_add(to, from->data ? from->data : "", from->len);
}

/* ---- merge bases ---- */

static void describe_state(struct base_entry *entry, const struct file_state *state, mode_t mode)
{
    entry->base = state->st.st_mode ? BASE_ENTRY_PRESENT : BASE_ENTRY_ABSENT;
    entry->size_bytes = (uint64_t) state->st.st_size;
    entry->mtime_ns = (int64_t) state->st.st_mtim.tv_sec * CLOCK_NS_PER_SEC + state->st.st_mtim.tv_nsec;
    entry->mode = mode & 0777;
    entry->has_hash = S_ISREG(state->st.st_mode);
    memcpy(entry->hash, state->hash, sizeof(entry->hash));
}

/* Sets the agent's new merge base; `is_kept`: a copy is needed to merge on it. */
static void set_merge_base(const struct file_state *state, mode_t mode, bool is_kept, struct planned *planned)
{
    describe_state(&planned->merge_base, state, mode);
    if (!is_kept || !S_ISREG(state->st.st_mode) || file_state_is_binary(state))
        return;
    copy_bytes(&state->bytes, &planned->merge_base_bytes);
    planned->keeps_merge_base = true;
}

/*
 * Some hunks of a file were chosen, and the project has changed since the merge base. The new merge base must be such that
 * merging the agent's text with the new project on it gives the result of all hunks: it is the old one with the chosen hunks,
 * but without the project's own changes. We get it by another merge, and check it, because adjacent changes do not merge.
 */
static int set_merge_base_of_hunks(const struct reconcile *re, const struct buf *text, mode_t mode, struct approve_file *file,
                                   struct planned *planned, struct err *err)
{
    autodone(threeway) struct threeway part = THREEWAY_EMPTY, check = THREEWAY_EMPTY;
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    const struct buf *merge_base = text, *wanted = &re->result.bytes;
    int r = 0;

    if (re->state == RECONCILE_MERGES) {
        r = threeway_make(&re->project.bytes, &re->merge_base.bytes, text, THREEWAY_NONE, &part, err);
        if (r == 0 && part.is_clean)
            r = threeway_make(&part.bytes, text, &re->agent.bytes, THREEWAY_NONE, &check, err);
        if (r < 0)
            return r;
        if (!check.is_clean || check.bytes.len != wanted->len ||
            (wanted->len > 0 && memcmp(check.bytes.data, wanted->data, wanted->len) != 0)) {
            file->outcome = APPROVE_CONFLICT;
            file->reason = "has changed in the project beside these hunks; take all of it, or rebase first";
            return 0;
        }
        merge_base = &part.bytes;
    }
    file_state_of_bytes(merge_base->data ? merge_base->data : "", merge_base->len, mode, &state);
    set_merge_base(&state, mode, true, planned);
    return 0;
}

/* ---- whole edits ---- */

static bool is_there_already(const struct reconcile *re)
{
    const struct file_state *to = &re->result, *is = &re->project;

    if (!to->st.st_mode || !is->st.st_mode)
        return !to->st.st_mode && !is->st.st_mode;
    return file_state_equals(to, is) && (S_ISLNK(to->st.st_mode) || !((to->st.st_mode ^ is->st.st_mode) & 0777));
}

static void plan_whole(const struct edit *edit, const struct approve_options *options, const struct reconcile *re,
                       struct approve_file *file, struct planned *planned)
{
    bool both_dirs = S_ISDIR(edit->now) && S_ISDIR(re->project.st.st_mode);

    file->outcome = APPROVE_WHOLE;
    planned->is_taken = true;
    planned->has_change = !is_there_already(re);
    planned->now = re->result.st.st_mode;
    planned->was = re->project.st;
    planned->is_mode_only = edit->kind == CHANGE_MODE || both_dirs;
    memcpy(planned->hash, re->result.hash, sizeof(planned->hash));
    planned->has_bytes = S_ISREG(planned->now) && !planned->is_mode_only && !file_state_equals(&re->result, &re->agent);
    if (planned->has_bytes)
        copy_bytes(&re->result.bytes, &planned->bytes);
    set_merge_base(&re->agent, re->agent.st.st_mode, !options->is_dropping, planned);
}

/* ---- hunks ---- */

/* Plans the project's file with some of the hunks, as in `text`, whose content it takes. */
static int plan_text(const struct edit_list *list, const struct edit *edit, const struct reconcile *re, struct buf *plan_text,
                     struct approve_file *file, struct planned *planned, struct err *err)
{
    const struct base_entry *entry = change_log_index_find(&list->log_index, edit->path);
    /* The mode that the agent's copy had at first. */
    mode_t mode = entry && entry->base == BASE_ENTRY_PRESENT ? entry->mode : re->project.st.st_mode & 0777;
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    int r = 0;

    file->outcome = APPROVE_PARTLY;
    planned->is_taken = planned->has_change = planned->has_bytes = true;
    planned->now = re->project.st.st_mode & (S_IFMT | 0777);
    planned->was = re->project.st;
    file_state_of_bytes(plan_text->data ? plan_text->data : "", plan_text->len, planned->now, &state);
    memcpy(planned->hash, state.hash, sizeof(planned->hash));
    if (file->hunks_taken == file->hunk_count)
        set_merge_base(&re->agent, mode, true, planned);
    else
        r = set_merge_base_of_hunks(re, plan_text, mode, file, planned, err);
    planned->bytes = *plan_text;
    *plan_text = BUF_EMPTY;
    return r;
}

/* These are exactly the hunks that file_diff.h shows. They have only the content: a changed mode remains an edit until the
 * whole file is approved. */
static int plan_hunks(const struct edit_list *list, const struct edit *edit, const struct approve_options *options,
                      const struct reconcile *re, const struct selection_file *wanted, struct approve_file *file,
                      struct planned *planned, struct err *err)
{
    const struct buf *was = &re->project.bytes, *now = &re->result.bytes;
    autodone(hunk_list) struct hunk_list hunks = HUNK_LIST_EMPTY;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct err why = ERR_NONE;
    int r;

    if ((re->project.st.st_mode && file_state_is_binary(&re->project)) ||
        (re->result.st.st_mode && file_state_is_binary(&re->result))) {
        autofree char *shown = apply_txn_quote(edit->path);
        return err_invalid(err, "%s is no text, or too large to be taken by hunks; take it whole", shown);
    }
    r = hunk_list_make(was->data, was->len, now->data, now->len, &hunks, err);
    if (r < 0)
        return r;
    autofree bool *chosen = xalloc(hunks.count + 1);
    r = selection_choose(wanted, &hunks, chosen, &why);
    if (r == -ESTALE) {
        file->outcome = APPROVE_STALE;
        file->reason = "has no such hunk any more";
        file->has_lost_hunk = true;
        return 0;
    }
    if (r < 0 && err)
        *err = why;
    if (r < 0)
        return r;
    file->hunk_count = hunks.count;
    file->hunks_taken = (size_t) r;
    file->outcome = APPROVE_NOTHING;
    if (r == 0)
        return 0;
    bool has_sides = edit->now && re->project.st.st_mode;
    if (file->hunks_taken == hunks.count && (!has_sides || !((re->result.st.st_mode ^ re->project.st.st_mode) & 0777))) {
        plan_whole(edit, options, re, file, planned);
        return 0;
    }
    r = hunk_list_pick(was->data, was->len, now->data, now->len, &hunks, chosen, &text, err);
    return r < 0 ? r : plan_text(list, edit, re, &text, file, planned, err);
}

/* ---- one edit ---- */

int planned_make(const struct edit_list *list, const struct edit *edit, const struct decision *decision,
                 const struct approve_options *options, struct approve_file *file, struct planned *ret, struct err *err)
{
    const struct selection_file *hunks = options->selection ? selection_hunks_of(options->selection, edit) : NULL;
    const struct base_entry *entry = change_log_index_find(&list->log_index, edit->path);
    autodone(reconcile) struct reconcile re = RECONCILE_EMPTY;
    int r = reconcile_make(list, edit, THREEWAY_NONE, &re, err);

    if (r < 0)
        return r;
    file->state = re.state;
    r = decision_has_shown(decision, list, edit, &re, err);
    if (r < 0)
        return r;
    if (r != DECISION_SHOWN) {
        file->outcome = r == DECISION_NOT_SHOWN ? APPROVE_UNSHOWN : APPROVE_STALE;
        file->reason = r == DECISION_NOT_SHOWN ? "was not shown" : "has changed since it was reviewed";
        return 0;
    }
    /* The hunks of a conflict are shown against another text than the project's: force applies the whole file, or nothing. */
    if (re.state == RECONCILE_CONFLICT && (re.is_hard || hunks || !options->is_forced)) {
        file->outcome = APPROVE_CONFLICT;
        file->reason = re.reason;
        file->merge = re.merge;
        re.merge = THREEWAY_EMPTY;
        return 0;
    }
    /* The merge base that an undo restores: that of the change log, or else the project's file as it is. */
    if (entry && entry->base != BASE_ENTRY_UNKNOWN)
        ret->before = *entry;
    else
        describe_state(&ret->before, &re.project, re.project.st.st_mode);
    ret->before.path = ret->merge_base.path = edit->path;
    if (hunks)
        return plan_hunks(list, edit, options, &re, hunks, file, ret, err);
    plan_whole(edit, options, &re, file, ret);
    return 0;
}
