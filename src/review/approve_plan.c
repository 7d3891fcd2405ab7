#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "review/approve_int.h"

void planned_change_done(struct planned_change *planned)
{
    buf_done(&planned->bytes);
    buf_done(&planned->merge_base_bytes);
    free(planned->merge_base.kept);
    *planned = (struct planned_change){ 0 };
}

static bool is_same_text(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* ---- merge bases ---- */

static void describe_base(struct base_entry *entry, const struct file_state *state, mode_t mode)
{
    entry->base = state->st.st_mode ? BASE_ENTRY_PRESENT : BASE_ENTRY_ABSENT;
    entry->size_bytes = (uint64_t) state->st.st_size;
    entry->mtime_ns = (int64_t) state->st.st_mtim.tv_sec * CLOCK_NS_PER_SEC + state->st.st_mtim.tv_nsec;
    entry->mode = mode & 0777;
    entry->has_hash = S_ISREG(state->st.st_mode);
    memcpy(entry->hash, state->hash, sizeof(entry->hash));
}

/* What an undo brings back: the page as it was, or, where there was none, the project as it is. */
static void remember_before(const struct edit_list *list, const struct edit *edit, const struct reconcile *re,
                            struct planned_change *planned)
{
    const struct base_entry *entry = change_log_index_find(&list->log_index, edit->path);

    if (entry && entry->base != BASE_ENTRY_UNKNOWN)
        planned->before = *entry;
    else
        describe_base(&planned->before, &re->project, re->project.st.st_mode);
    planned->before.path = edit->path;
}

static void keep_merge_base(struct planned_change *planned, const struct file_state *state)
{
    if (!S_ISREG(state->st.st_mode) || file_state_is_binary(state))
        return;
    buf_add(&planned->merge_base_bytes, state->bytes.data ? state->bytes.data : "", state->bytes.len);
    planned->keeps_merge_base = true;
}

/* All was taken: the agent stands on what it made itself. */
static void base_on_agent(const struct reconcile *re, mode_t mode, bool leaves, struct planned_change *planned)
{
    describe_base(&planned->merge_base, &re->agent, mode);
    if (!leaves)
        keep_merge_base(planned, &re->agent);
}

static void base_on_bytes(const void *bytes, size_t len, mode_t mode, struct planned_change *planned)
{
    autodone(file_state) struct file_state state = FILE_STATE_NONE;

    file_state_of_bytes(bytes, len, mode, &state);
    describe_base(&planned->merge_base, &state, mode);
    keep_merge_base(planned, &state);
}

/* The mode the agent's copy had at first. */
static mode_t merge_base_mode(const struct edit_list *list, const struct edit *edit, const struct reconcile *re)
{
    const struct base_entry *entry = change_log_index_find(&list->log_index, edit->path);

    return entry && entry->base == BASE_ENTRY_PRESENT ? entry->mode : re->project.st.st_mode & 0777;
}

/* ---- whole edits ---- */

static bool is_there_already(const struct reconcile *re)
{
    const struct file_state *to = &re->result, *is = &re->project;

    if (!to->st.st_mode || !is->st.st_mode)
        return !to->st.st_mode && !is->st.st_mode;
    return file_state_equals(to, is) && (S_ISLNK(to->st.st_mode) || !((to->st.st_mode ^ is->st.st_mode) & 0777));
}

static void plan_bytes(const struct file_state *state, struct planned_change *planned)
{
    planned->has_bytes = true;
    buf_add(&planned->bytes, state->bytes.data ? state->bytes.data : "", state->bytes.len);
}

static void plan_whole(const struct edit *edit, const struct approve_options *options, const struct reconcile *re,
                       struct approve_file *file, struct planned_change *planned)
{
    bool both_dirs = S_ISDIR(edit->now) && S_ISDIR(re->project.st.st_mode);

    file->outcome = APPROVE_WHOLE;
    planned->is_taken = true;
    planned->has_change = !is_there_already(re);
    planned->now = re->result.st.st_mode;
    planned->was = re->project.st;
    planned->is_mode_only = edit->kind == CHANGE_MODE || both_dirs;
    memcpy(planned->hash, re->result.hash, sizeof(planned->hash));
    if (S_ISREG(planned->now) && !planned->is_mode_only && !file_state_equals(&re->result, &re->agent))
        plan_bytes(&re->result, planned);
    base_on_agent(re, re->agent.st.st_mode, options->is_dropping, planned);
}

/* ---- hunks ---- */

static void set_conflict(struct approve_file *file, const char *reason)
{
    file->outcome = APPROVE_CONFLICT;
    file->reason = reason;
}

/*
 * Of a file on whose ground the project has been changed, some hunks. The new ground must be such that the agent's text, merged with
 * the new project on it, is what all hunks would have made: the old ground with the chosen hunks, and without the project's own
 * changes. That is found by merging once more, and checked, because changes that lie side by side do not merge.
 */
static int merge_base_of_part(const struct reconcile *re, const struct buf *taken, struct threeway *ret, bool *ret_holds,
                              struct err *err)
{
    autodone(threeway) struct threeway check = THREEWAY_EMPTY;
    int r = threeway_make(&re->project.bytes, &re->merge_base.bytes, taken, THREEWAY_NONE, ret, err);

    *ret_holds = false;
    if (r < 0 || !ret->is_clean)
        return r;
    r = threeway_make(&ret->bytes, taken, &re->agent.bytes, THREEWAY_NONE, &check, err);
    *ret_holds = r == 0 && check.is_clean && is_same_text(&check.bytes, &re->result.bytes);
    return r;
}

static int base_on_part(const struct reconcile *re, const struct buf *taken, mode_t mode, struct approve_file *file,
                        struct planned_change *planned, struct err *err)
{
    autodone(threeway) struct threeway part = THREEWAY_EMPTY;
    bool holds;
    int r;

    if (re->state != RECONCILE_MERGES) {
        base_on_bytes(taken->data ? taken->data : "", taken->len, mode, planned);
        return 0;
    }
    r = merge_base_of_part(re, taken, &part, &holds, err);
    if (r < 0)
        return r;
    if (holds)
        base_on_bytes(part.bytes.data ? part.bytes.data : "", part.bytes.len, mode, planned);
    else
        set_conflict(file, "has changed in the project beside these hunks; take all of it, or rebase first");
    return 0;
}

static int plan_text(const struct edit_list *list, const struct edit *edit, const struct reconcile *re, struct buf *take_taken,
                     bool is_all, struct approve_file *file, struct planned_change *planned, struct err *err)
{
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    mode_t mode = merge_base_mode(list, edit, re);
    int r = 0;

    file->outcome = APPROVE_PARTLY;
    planned->is_taken = planned->has_change = true;
    planned->now = re->project.st.st_mode & (S_IFMT | 0777);
    planned->was = re->project.st;
    file_state_of_bytes(take_taken->data ? take_taken->data : "", take_taken->len, planned->now, &state);
    memcpy(planned->hash, state.hash, sizeof(planned->hash));
    if (is_all)
        base_on_agent(re, mode, false, planned);
    else
        r = base_on_part(re, take_taken, mode, file, planned, err);
    planned->has_bytes = true;
    planned->bytes = *take_taken;
    *take_taken = BUF_EMPTY;
    return r;
}

static int pick_hunks(const struct selection_file *wanted, const struct hunk_list *hunks, bool *chosen,
                      struct approve_file *file, struct err *err)
{
    struct err why = ERR_NONE;
    int r = selection_choose(wanted, hunks, chosen, &why);

    if (r == -ESTALE) {
        file->outcome = APPROVE_STALE;
        file->reason = "has no such hunk any more";
        file->has_lost_hunk = true;
        return 0;
    }
    if (r < 0 && err)
        *err = why;
    file->hunk_count = hunks->count;
    file->hunks_taken = r > 0 ? (size_t) r : 0;
    file->outcome = r > 0 ? APPROVE_PARTLY : APPROVE_NOTHING;
    return r;
}

static bool has_text(const struct file_state *state)
{
    return !state->st.st_mode || !file_state_is_binary(state);
}

/* The very hunks that file_diff.h shows. Only the content is in them: another mode stays an edit of its own, until the file is taken as
 * a whole. */
static int plan_hunks(const struct edit_list *list, const struct edit *edit, const struct approve_options *options,
                      const struct reconcile *re, const struct selection_file *wanted, struct approve_file *file,
                      struct planned_change *planned, struct err *err)
{
    const struct buf *was = &re->project.bytes, *now = &re->result.bytes;
    autodone(hunk_list) struct hunk_list hunks = HUNK_LIST_EMPTY;
    autodone(buf) struct buf taken = BUF_EMPTY;
    int r;

    if (!has_text(&re->project) || !has_text(&re->result)) {
        autofree char *shown = apply_txn_quote(edit->path);
        return err_invalid(err, "%s is no text, or too large to be taken by hunks; take it whole", shown);
    }
    r = hunk_list_make(was->data, was->len, now->data, now->len, &hunks, err);
    if (r < 0)
        return r;
    autofree bool *chosen = xalloc(hunks.count + 1);
    r = pick_hunks(wanted, &hunks, chosen, file, err);
    if (r <= 0)
        return r;
    bool is_all = file->hunks_taken == hunks.count;
    bool has_sides = edit->now && re->project.st.st_mode;
    if (is_all && (!has_sides || !((re->result.st.st_mode ^ re->project.st.st_mode) & 0777))) {
        plan_whole(edit, options, re, file, planned);
        return 0;
    }
    r = hunk_list_pick(was->data, was->len, now->data, now->len, &hunks, chosen, &taken, err);
    return r < 0 ? r : plan_text(list, edit, re, &taken, is_all, file, planned, err);
}

/* ---- one edit ---- */

static int plan_edit(const struct edit_list *list, const struct edit *edit, const struct decision *decision,
                     const struct approve_options *options, struct reconcile *re, struct approve_file *file,
                     struct planned_change *planned, struct err *err)
{
    const struct selection_file *hunks = options->selection ? selection_hunks_of(options->selection, edit) : NULL;
    int r = decision_has_shown(decision, list, edit, re, err);

    if (r < 0)
        return r;
    if (r != DECISION_SHOWN) {
        file->outcome = r == DECISION_NOT_SHOWN ? APPROVE_UNSHOWN : APPROVE_STALE;
        file->reason = r == DECISION_NOT_SHOWN ? "was not shown" : "has changed since it was reviewed";
        return 0;
    }
    /* The hunks that are shown of a conflict lead from another text than the project's: force takes the file, or nothing of it. */
    if (re->state == RECONCILE_CONFLICT && (re->is_hard || hunks || !options->is_forced)) {
        set_conflict(file, re->reason);
        file->merge = re->merge;
        re->merge = THREEWAY_EMPTY;
        return 0;
    }
    remember_before(list, edit, re, planned);
    planned->merge_base.path = edit->path;
    if (hunks)
        return plan_hunks(list, edit, options, re, hunks, file, planned, err);
    plan_whole(edit, options, re, file, planned);
    return 0;
}

int planned_change_make(const struct edit_list *list, const struct edit *edit, const struct decision *decision,
                        const struct approve_options *options, struct approve_file *file, struct planned_change *ret,
                        struct err *err)
{
    autodone(reconcile) struct reconcile re = RECONCILE_EMPTY;
    int r = reconcile_make(list, edit, THREEWAY_NONE, &re, err);

    if (r < 0)
        return r;
    file->state = re.state;
    return plan_edit(list, edit, decision, options, &re, file, ret, err);
}
