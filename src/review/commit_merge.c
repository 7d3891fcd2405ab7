#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "review/commit_int.h"
#include "review/contribution.h"
#include "review/file_state.h"
#include "review/threeway.h"

#define LOST "was approved too long ago to tell the agent's changes in it from others; commit it yourself"
#define NEW "was in no commit before the agent changed it; commit it yourself"
#define SAME_LINES                                                                                                             \
    "holds changes that are not the agent's and in no commit, in the same lines; commit or undo those first, then try "        \
    "again"
#define NO_TEXT                                                                                                                \
    "holds changes that are not the agent's and in no commit, and is no text that could be merged; commit it yourself"

void commit_merge_version_done(struct commit_merge_version *version)
{
    buf_done(&version->bytes);
    *version = (struct commit_merge_version){ 0 };
}

void commit_merge_done(struct commit_merge *merge)
{
    for (size_t i = 0; i < merge->count; i++) {
        commit_merge_version_done(&merge->steps[i].before);
        commit_merge_version_done(&merge->steps[i].after);
    }
    free(merge->steps);
    *merge = (struct commit_merge){ 0 };
}

static bool is_content(const struct commit_merge *merge, const struct commit_merge_version *a,
                       const struct commit_merge_version *b)
{
    return (a->mode & S_IFMT) == (b->mode & S_IFMT) && (!a->mode || merge->wt->git->git_oid_cmp(&a->id, &b->id) == 0);
}

static bool is_same_version(const struct commit_merge *merge, const struct commit_merge_version *a,
                            const struct commit_merge_version *b)
{
    return a->mode == b->mode && is_content(merge, a, b);
}

static void copy_version(const struct commit_merge_version *from, struct commit_merge_version *to)
{
    commit_merge_version_done(to);
    to->mode = from->mode;
    to->id = from->id;
    to->has_bytes = from->has_bytes;
    buf_add(&to->bytes, from->bytes.data ? from->bytes.data : "", from->bytes.len);
}

/* ---- loading ---- */

static int load_version(struct commit_merge *merge, const char *repo_path, struct contribution_side *from,
                        struct commit_merge_version *to, struct err *err)
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
        return merge->wt->git->git_oid_fromstr(&to->id, from->blob) < 0 ? libgit_failed(merge->wt->git, "naming an object", err)
                                                                        : 0;
    if (to->mode != GIT_FILEMODE_LINK)
        r = worktree_clean(merge->wt, repo_path, &to->bytes, err);
    return r < 0 ? r : worktree_put(merge->wt, &to->bytes, true, &to->id, err);
}

/* Approvals of one file that directly follow each other are joined to one change: others may have committed both, or
 * changed the result of the earlier one. */
static void join_last(struct commit_merge *merge)
{
    struct commit_merge_step *last, *new;

    if (merge->count < 2)
        return;
    last = &merge->steps[merge->count - 2];
    new = &merge->steps[merge->count - 1];
    if (!is_same_version(merge, &last->after, &new->before))
        return;
    commit_merge_version_done(&last->after);
    commit_merge_version_done(&new->before);
    last->after = new->after;
    *new = (struct commit_merge_step){ 0 };
    merge->count--;
}

int commit_merge_load(const struct worktree *wt, const char *repo_path, int parts_fd, const struct commit_parts *parts,
                      struct commit_merge *ret, struct err *err)
{
    int r = 0;

    *ret = (struct commit_merge){ .wt = wt, .steps = xalloc((parts->count + 1) * sizeof(*ret->steps)) };
    for (size_t i = 0; r == 0 && i < parts->count; i++) {
        autodone(contribution) struct contribution part = CONTRIBUTION_NONE;
        struct commit_merge_step *step = &ret->steps[ret->count];
        worktree_restore_rights(wt);
        r = contribution_load(parts_fd, parts->names[i], &part);
        worktree_assume_rights(wt);
        if (r == -ENOENT || r == -EBADMSG) {
            ret->reason = LOST;
            return 0;
        }
        if (r < 0)
            return err_errno(err, r, "reading what was approved");
        ret->count++;
        r = load_version(ret, repo_path, &part.before, &step->before, err);
        if (r == 0)
            r = load_version(ret, repo_path, &part.after, &step->after, err);
        join_last(ret);
    }
    return r;
}

/* ---- merging ---- */

static bool is_text(const struct commit_merge_version *version)
{
    struct file_state state = { .has_bytes = version->has_bytes, .bytes = version->bytes }; /* borrowed */

    return version->mode != GIT_FILEMODE_LINK && !file_state_is_binary(&state);
}

static int read_bytes(const struct commit_merge *merge, struct commit_merge_version *version, struct err *err)
{
    int r = 0;

    if (!version->has_bytes)
        r = worktree_get(merge->wt, &version->id, &version->bytes, err);
    version->has_bytes = r == 0;
    return r;
}

static int merge_step(const struct commit_merge *merge, const struct commit_merge_step *step, struct commit_merge_version *at,
                      const char **ret_reason, struct err *err)
{
    autodone(threeway) struct threeway merged = THREEWAY_EMPTY;
    int r;

    *ret_reason = NO_TEXT;
    if (at->mode == GIT_FILEMODE_LINK || at->mode == GIT_FILEMODE_COMMIT || !is_text(&step->before) || !is_text(&step->after))
        return 1;
    r = read_bytes(merge, at, err);
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
    return worktree_put(merge->wt, &at->bytes, true, &at->id, err);
}

/* A file that the agent created or removed has no changes of others. */
static int merge_contribution(const struct commit_merge *merge, const struct commit_merge_step *step,
                              struct commit_merge_version *at, const char **ret_reason, struct err *err)
{
    uint32_t mode = step->before.mode != step->after.mode ? step->after.mode : at->mode;
    int r = 0;

    if (!step->before.mode || !step->after.mode || is_same_version(merge, at, &step->before)) {
        copy_version(&step->after, at);
        return 0;
    }
    if (!at->mode) {
        *ret_reason = NEW;
        return 1;
    }
    if (is_content(merge, at, &step->before))
        copy_version(&step->after, at);
    else if (!is_content(merge, at, &step->after) && !is_content(merge, &step->before, &step->after))
        r = merge_step(merge, step, at, ret_reason, err);
    at->mode = mode;
    return r;
}

/* If somebody has committed the first of the changes, only the rest is merged. */
static size_t find_start(const struct commit_merge *merge, const struct commit_merge_version *at)
{
    for (size_t i = merge->count; i-- > 0;) {
        if (is_same_version(merge, at, &merge->steps[i].after))
            return i + 1;
        if (is_same_version(merge, at, &merge->steps[i].before))
            return i;
    }
    return 0;
}

int commit_merge_onto(const struct commit_merge *merge, const git_index_entry *onto, struct commit_merge_version *ret,
                      const char **ret_reason, struct err *err)
{
    autodone(commit_merge_version) struct commit_merge_version at = { 0 };
    int r = 0;

    *ret_reason = merge->reason;
    if (merge->reason)
        return 1;
    if (onto) {
        at.mode = onto->mode;
        at.id = onto->id;
    }
    for (size_t i = find_start(merge, &at); r == 0 && i < merge->count; i++)
        r = merge_contribution(merge, &merge->steps[i], &at, ret_reason, err);
    if (r != 0)
        return r;
    *ret = at;
    at = (struct commit_merge_version){ 0 };
    return 0;
}
