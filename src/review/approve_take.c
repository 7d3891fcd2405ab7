#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "review/approve_int.h"

void taking_done(struct taking *taking)
{
    buf_done(&taking->bytes);
    buf_done(&taking->ground_bytes);
    free(taking->ground.kept);
    *taking = (struct taking){ 0 };
}

static bool is_same_text(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* ---- grounds ---- */

static void describe(struct diary_page *page, const struct image *image, mode_t mode)
{
    page->base = image->st.st_mode ? DIARY_BASE_PRESENT : DIARY_BASE_ABSENT;
    page->size_bytes = (uint64_t) image->st.st_size;
    page->mtime_ns = (int64_t) image->st.st_mtim.tv_sec * CLOCK_NS_PER_SEC + image->st.st_mtim.tv_nsec;
    page->mode = mode & 0777;
    page->has_hash = S_ISREG(image->st.st_mode);
    memcpy(page->hash, image->hash, sizeof(page->hash));
}

/* What an undo brings back: the page as it was, or, where there was none, the project as it is. */
static void remember_before(const struct edit_list *list, const struct edit *edit, const struct reconcile *re,
                            struct taking *taking)
{
    const struct diary_page *page = diary_find(&list->diary, edit->path);

    if (page && page->base != DIARY_BASE_UNKNOWN)
        taking->before = *page;
    else
        describe(&taking->before, &re->project, re->project.st.st_mode);
    taking->before.path = edit->path;
}

static void keep_ground(struct taking *taking, const struct image *image)
{
    if (!S_ISREG(image->st.st_mode) || image_is_binary(image))
        return;
    buf_add(&taking->ground_bytes, image->bytes.data ? image->bytes.data : "", image->bytes.len);
    taking->keeps_ground = true;
}

/* All was taken: the agent stands on what it made itself. */
static void stand_on_agent(const struct reconcile *re, mode_t mode, bool leaves, struct taking *taking)
{
    describe(&taking->ground, &re->agent, mode);
    if (!leaves)
        keep_ground(taking, &re->agent);
}

static void stand_on_bytes(const void *bytes, size_t len, mode_t mode, struct taking *taking)
{
    autodone(image) struct image image = IMAGE_NONE;

    image_of_bytes(bytes, len, mode, &image);
    describe(&taking->ground, &image, mode);
    keep_ground(taking, &image);
}

/* The mode the agent's copy had at first. */
static mode_t ground_mode(const struct edit_list *list, const struct edit *edit, const struct reconcile *re)
{
    const struct diary_page *page = diary_find(&list->diary, edit->path);

    return page && page->base == DIARY_BASE_PRESENT ? page->mode : re->project.st.st_mode & 0777;
}

/* ---- whole edits ---- */

static bool is_there_already(const struct reconcile *re)
{
    const struct image *to = &re->result, *is = &re->project;

    if (!to->st.st_mode || !is->st.st_mode)
        return !to->st.st_mode && !is->st.st_mode;
    return image_is_same(to, is) && (S_ISLNK(to->st.st_mode) || !((to->st.st_mode ^ is->st.st_mode) & 0777));
}

static void take_bytes(const struct image *image, struct taking *taking)
{
    taking->has_bytes = true;
    buf_add(&taking->bytes, image->bytes.data ? image->bytes.data : "", image->bytes.len);
}

static void take_whole(const struct edit *edit, const struct approve_options *options, const struct reconcile *re,
                       struct approve_file *file, struct taking *taking)
{
    bool both_dirs = S_ISDIR(edit->now) && S_ISDIR(re->project.st.st_mode);

    file->outcome = APPROVE_WHOLE;
    taking->is_taken = true;
    taking->has_wish = !is_there_already(re);
    taking->now = re->result.st.st_mode;
    taking->was = re->project.st;
    taking->is_mode_only = edit->kind == CHANGE_MODE || both_dirs;
    memcpy(taking->hash, re->result.hash, sizeof(taking->hash));
    if (S_ISREG(taking->now) && !taking->is_mode_only && !image_is_same(&re->result, &re->agent))
        take_bytes(&re->result, taking);
    stand_on_agent(re, re->agent.st.st_mode, options->is_dropping, taking);
}

/* ---- hunks ---- */

static void refuse(struct approve_file *file, const char *reason)
{
    file->outcome = APPROVE_CONFLICT;
    file->reason = reason;
}

/*
 * Of a file on whose ground the project has been changed, some hunks. The new ground must be such that the agent's text, merged with
 * the new project on it, is what all hunks would have made: the old ground with the chosen hunks, and without the project's own
 * changes. That is found by merging once more, and checked, because changes that lie side by side do not merge.
 */
static int ground_of_part(const struct reconcile *re, const struct buf *taken, struct threeway *ret, bool *ret_holds,
                          struct err *err)
{
    autodone(threeway) struct threeway check = THREEWAY_EMPTY;
    int r = threeway_make(&re->project.bytes, &re->ground.bytes, taken, THREEWAY_NONE, ret, err);

    *ret_holds = false;
    if (r < 0 || !ret->is_clean)
        return r;
    r = threeway_make(&ret->bytes, taken, &re->agent.bytes, THREEWAY_NONE, &check, err);
    *ret_holds = r == 0 && check.is_clean && is_same_text(&check.bytes, &re->result.bytes);
    return r;
}

static int stand_on_part(const struct reconcile *re, const struct buf *taken, mode_t mode, struct approve_file *file,
                         struct taking *taking, struct err *err)
{
    autodone(threeway) struct threeway part = THREEWAY_EMPTY;
    bool holds;
    int r;

    if (re->state != RECONCILE_MERGES) {
        stand_on_bytes(taken->data ? taken->data : "", taken->len, mode, taking);
        return 0;
    }
    r = ground_of_part(re, taken, &part, &holds, err);
    if (r < 0)
        return r;
    if (holds)
        stand_on_bytes(part.bytes.data ? part.bytes.data : "", part.bytes.len, mode, taking);
    else
        refuse(file, "has changed in the project beside these hunks; take all of it, or rebase first");
    return 0;
}

static int take_text(const struct edit_list *list, const struct edit *edit, const struct reconcile *re, struct buf *take_taken,
                     bool is_all, struct approve_file *file, struct taking *taking, struct err *err)
{
    autodone(image) struct image image = IMAGE_NONE;
    mode_t mode = ground_mode(list, edit, re);
    int r = 0;

    file->outcome = APPROVE_PARTLY;
    taking->is_taken = taking->has_wish = true;
    taking->now = re->project.st.st_mode & (S_IFMT | 0777);
    taking->was = re->project.st;
    image_of_bytes(take_taken->data ? take_taken->data : "", take_taken->len, taking->now, &image);
    memcpy(taking->hash, image.hash, sizeof(taking->hash));
    if (is_all)
        stand_on_agent(re, mode, false, taking);
    else
        r = stand_on_part(re, take_taken, mode, file, taking, err);
    taking->has_bytes = true;
    taking->bytes = *take_taken;
    *take_taken = BUF_EMPTY;
    return r;
}

static int choose(const struct selection_file *wanted, const struct hunk_list *hunks, bool *chosen, struct approve_file *file,
                  struct err *err)
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

static bool has_text(const struct image *image)
{
    return !image->st.st_mode || !image_is_binary(image);
}

/* The very hunks that file_diff.h shows. Only the content is in them: another mode stays an edit of its own, until the file is taken as
 * a whole. */
static int take_hunks(const struct edit_list *list, const struct edit *edit, const struct approve_options *options,
                      const struct reconcile *re, const struct selection_file *wanted, struct approve_file *file,
                      struct taking *taking, struct err *err)
{
    const struct buf *was = &re->project.bytes, *now = &re->result.bytes;
    autodone(hunk_list) struct hunk_list hunks = HUNK_LIST_EMPTY;
    autodone(buf) struct buf taken = BUF_EMPTY;
    int r;

    if (!has_text(&re->project) || !has_text(&re->result)) {
        autofree char *shown = landing_quote(edit->path);
        return err_invalid(err, "%s is no text, or too large to be taken by hunks; take it whole", shown);
    }
    r = hunk_list_make(was->data, was->len, now->data, now->len, &hunks, err);
    if (r < 0)
        return r;
    autofree bool *chosen = xalloc(hunks.count + 1);
    r = choose(wanted, &hunks, chosen, file, err);
    if (r <= 0)
        return r;
    bool is_all = file->hunks_taken == hunks.count;
    bool has_sides = edit->now && re->project.st.st_mode;
    if (is_all && (!has_sides || !((re->result.st.st_mode ^ re->project.st.st_mode) & 0777))) {
        take_whole(edit, options, re, file, taking);
        return 0;
    }
    r = hunk_list_pick(was->data, was->len, now->data, now->len, &hunks, chosen, &taken, err);
    return r < 0 ? r : take_text(list, edit, re, &taken, is_all, file, taking, err);
}

/* ---- one edit ---- */

static int take(const struct edit_list *list, const struct edit *edit, const struct decision *decision,
                const struct approve_options *options, struct reconcile *re, struct approve_file *file, struct taking *taking,
                struct err *err)
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
        refuse(file, re->reason);
        file->merge = re->merge;
        re->merge = THREEWAY_EMPTY;
        return 0;
    }
    remember_before(list, edit, re, taking);
    taking->ground.path = edit->path;
    if (hunks)
        return take_hunks(list, edit, options, re, hunks, file, taking, err);
    take_whole(edit, options, re, file, taking);
    return 0;
}

int taking_make(const struct edit_list *list, const struct edit *edit, const struct decision *decision,
                const struct approve_options *options, struct approve_file *file, struct taking *ret, struct err *err)
{
    autodone(reconcile) struct reconcile re = RECONCILE_EMPTY;
    int r = reconcile_make(list, edit, THREEWAY_NONE, &re, err);

    if (r < 0)
        return r;
    file->state = re.state;
    return take(list, edit, decision, options, &re, file, ret, err);
}
