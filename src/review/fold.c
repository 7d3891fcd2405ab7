#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "review/commit_int.h"
#include "review/contribution.h"
#include "review/image.h"
#include "review/threeway.h"

#define LOST "was approved too long ago to tell the agent's changes in it from others; commit it yourself"
#define NEW "was in no commit before the agent changed it; commit it yourself"
#define SAME_LINES                                                                                                             \
    "holds changes that are not the agent's and in no commit, in the same lines; commit or undo those first, then try "        \
    "again"
#define NO_TEXT                                                                                                                \
    "holds changes that are not the agent's and in no commit, and is no text that could be merged; commit it yourself"

void fold_side_done(struct fold_side *side)
{
    buf_done(&side->bytes);
    *side = (struct fold_side){ 0 };
}

void fold_done(struct fold *fold)
{
    for (size_t i = 0; i < fold->count; i++) {
        fold_side_done(&fold->steps[i].before);
        fold_side_done(&fold->steps[i].after);
    }
    free(fold->steps);
    *fold = (struct fold){ 0 };
}

static bool is_content(const struct fold *fold, const struct fold_side *a, const struct fold_side *b)
{
    return (a->mode & S_IFMT) == (b->mode & S_IFMT) && (!a->mode || fold->wt->git->git_oid_cmp(&a->id, &b->id) == 0);
}

static bool is_same(const struct fold *fold, const struct fold_side *a, const struct fold_side *b)
{
    return a->mode == b->mode && is_content(fold, a, b);
}

static void copy_side(const struct fold_side *from, struct fold_side *to)
{
    fold_side_done(to);
    to->mode = from->mode;
    to->id = from->id;
    to->has_bytes = from->has_bytes;
    buf_add(&to->bytes, from->bytes.data ? from->bytes.data : "", from->bytes.len);
}

/* ---- loading ---- */

static int take_side(struct fold *fold, const char *repo_path, struct contribution_side *from, struct fold_side *to,
                     struct err *err)
{
    int r = 0;

    to->mode = !from->mode           ? 0
               : S_ISLNK(from->mode) ? GIT_FILEMODE_LINK
               : (from->mode & 0100) ? GIT_FILEMODE_BLOB_EXECUTABLE
                                     : GIT_FILEMODE_BLOB;
    to->has_bytes = from->has_bytes;
    to->bytes = from->bytes;
    from->bytes = BUF_EMPTY;
    if (!to->mode)
        return 0;
    if (!to->has_bytes)
        return fold->wt->git->git_oid_fromstr(&to->id, from->blob) < 0 ? libgit_failed(fold->wt->git, "naming an object", err)
                                                                       : 0;
    if (to->mode != GIT_FILEMODE_LINK)
        r = worktree_clean(fold->wt, repo_path, &to->bytes, err);
    return r < 0 ? r : worktree_put(fold->wt, &to->bytes, true, &to->id, err);
}

/* What was approved on top of an earlier approval, with nobody in between, is one change: others may have committed both, or may have
 * changed what the earlier one made. */
static void join_last(struct fold *fold)
{
    struct fold_step *last, *new;

    if (fold->count < 2)
        return;
    last = &fold->steps[fold->count - 2];
    new = &fold->steps[fold->count - 1];
    if (!is_same(fold, &last->after, &new->before))
        return;
    fold_side_done(&last->after);
    fold_side_done(&new->before);
    last->after = new->after;
    *new = (struct fold_step){ 0 };
    fold->count--;
}

int fold_load(const struct worktree *wt, const char *repo_path, int parts_fd, const struct commit_parts *parts,
              struct fold *ret, struct err *err)
{
    int r = 0;

    *ret = (struct fold){ .wt = wt, .steps = xalloc((parts->count + 1) * sizeof(*ret->steps)) };
    for (size_t i = 0; r == 0 && i < parts->count; i++) {
        autodone(contribution) struct contribution part = CONTRIBUTION_NONE;
        struct fold_step *step = &ret->steps[ret->count];
        worktree_leave_rights(wt);
        r = contribution_load(parts_fd, parts->names[i], &part);
        worktree_take_rights(wt);
        if (r == -ENOENT || r == -EBADMSG) {
            ret->reason = LOST;
            return 0;
        }
        if (r < 0)
            return err_errno(err, r, "reading what was approved");
        ret->count++;
        r = take_side(ret, repo_path, &part.before, &step->before, err);
        if (r == 0)
            r = take_side(ret, repo_path, &part.after, &step->after, err);
        join_last(ret);
    }
    return r;
}

/* ---- folding ---- */

static bool is_text(const struct fold_side *side)
{
    struct image image = { .has_bytes = side->has_bytes, .bytes = side->bytes }; /* borrows */

    return side->mode != GIT_FILEMODE_LINK && !image_is_binary(&image);
}

static int read_bytes(const struct fold *fold, struct fold_side *side, struct err *err)
{
    int r = 0;

    if (!side->has_bytes)
        r = worktree_get(fold->wt, &side->id, &side->bytes, err);
    side->has_bytes = r == 0;
    return r;
}

static int merge(const struct fold *fold, const struct fold_step *step, struct fold_side *at, const char **ret_reason,
                 struct err *err)
{
    autodone(threeway) struct threeway merged = THREEWAY_EMPTY;
    int r;

    *ret_reason = NO_TEXT;
    if (at->mode == GIT_FILEMODE_LINK || at->mode == GIT_FILEMODE_COMMIT || !is_text(&step->before) || !is_text(&step->after))
        return 1;
    r = read_bytes(fold, at, err);
    if (r < 0 || !is_text(at))
        return r < 0 ? r : 1;
    r = threeway_make(&step->before.bytes, &at->bytes, &step->after.bytes, THREEWAY_NONE, &merged, err);
    if (r < 0)
        return r;
    *ret_reason = SAME_LINES;
    if (!merged.is_clean)
        return 1;
    buf_clear(&at->bytes);
    buf_add(&at->bytes, merged.bytes.data ? merged.bytes.data : "", merged.bytes.len);
    return worktree_put(fold->wt, &at->bytes, true, &at->id, err);
}

/* A file that the agent made or removed has nothing of others in it. */
static int fold_one(const struct fold *fold, const struct fold_step *step, struct fold_side *at, const char **ret_reason,
                    struct err *err)
{
    uint32_t mode = step->before.mode != step->after.mode ? step->after.mode : at->mode;
    int r = 0;

    if (!step->before.mode || !step->after.mode || is_same(fold, at, &step->before)) {
        copy_side(&step->after, at);
        return 0;
    }
    if (!at->mode) {
        *ret_reason = NEW;
        return 1;
    }
    if (is_content(fold, at, &step->before))
        copy_side(&step->after, at);
    else if (!is_content(fold, at, &step->after) && !is_content(fold, &step->before, &step->after))
        r = merge(fold, step, at, ret_reason, err);
    at->mode = mode;
    return r;
}

/* Where somebody has committed some of it as it was then, the rest counts. */
static size_t find_start(const struct fold *fold, const struct fold_side *at)
{
    for (size_t i = fold->count; i-- > 0;) {
        if (is_same(fold, at, &fold->steps[i].after))
            return i + 1;
        if (is_same(fold, at, &fold->steps[i].before))
            return i;
    }
    return 0;
}

int fold_onto(const struct fold *fold, const git_index_entry *onto, struct fold_side *ret, const char **ret_reason,
              struct err *err)
{
    autodone(fold_side) struct fold_side at = { 0 };
    int r = 0;

    *ret_reason = fold->reason;
    if (fold->reason)
        return 1;
    if (onto) {
        at.mode = onto->mode;
        at.id = onto->id;
    }
    for (size_t i = find_start(fold, &at); r == 0 && i < fold->count; i++)
        r = fold_one(fold, &fold->steps[i], &at, ret_reason, err);
    if (r != 0)
        return r;
    *ret = at;
    at = (struct fold_side){ 0 };
    return 0;
}
