#include "review/commit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "review/apply_txn.h"
#include "review/commit_int.h"
#include "review/confine.h"

/* One path, before and after the commit. */
struct commit_item {
    char *path;                /* owned; from the work tree's root */
    const git_index_entry *is; /* the file now: `found`, or NULL for none */
    git_index_entry found;     /* borrows the path, as do all entries */
    bool had_head, had_staged, is_staged_anew;
    git_index_entry head, staged; /* from HEAD and from the project's index */
    enum commit_status status;
    const char *reason;
    bool is_gone; /* the commit deletes it */
    git_index_entry entry;
};

struct commit_run {
    const struct commit_request *request;
    struct worktree wt;
    bool is_dry;               /* no objects are written */
    git_oid head, head_tree;   /* zero: no commit yet */
    git_index *index;          /* owned: ours, in memory */
    git_index *project;        /* owned: the project's */
    struct commit_item *items; /* owned */
};

static void commit_run_done(struct commit_run *c)
{
    for (size_t i = 0; c->items && i < c->request->path_count; i++)
        free(c->items[i].path);
    free(c->items);
    if (c->index)
        c->wt.git->git_index_free(c->index);
    if (c->project)
        c->wt.git->git_index_free(c->project);
    worktree_done(&c->wt);
}

/* ---- the index of the commit ---- */

static int read_head(struct commit_run *c, struct err *err)
{
    const struct libgit *git = c->wt.git;
    git_tree *tree = NULL;
    int r = worktree_head(&c->wt, &c->head, &c->head_tree, err);

    if (r < 0)
        return r;
    r = git->git_index_new(&c->index);
    if (r == 0 && !git->git_oid_is_zero(&c->head_tree)) {
        r = git->git_tree_lookup(&tree, c->wt.repo, &c->head_tree);
        if (r == 0)
            r = git->git_index_read_tree(c->index, tree);
        git->git_tree_free(tree);
    }
    return r < 0 ? libgit_failed(git, "reading the tree of HEAD", err) : 0;
}

/* A submodule is an entry of its own kind: nothing can be added below it. */
static int check_submodules(struct commit_run *c, const char *path, struct err *err)
{
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        autofree char *above = xdupn(path, (size_t) (slash - path));
        const git_index_entry *entry = c->wt.git->git_index_get_bypath(c->index, above, 0);
        if (!entry || entry->mode != GIT_FILEMODE_COMMIT)
            continue;
        autofree char *shown = apply_txn_quote(path);
        return err_set(err, ERR_FAILED_PRECONDITION, -EINVAL, "%s is in a submodule; commit it there", shown);
    }
    return 0;
}

static bool is_same_entry(const struct libgit *git, const git_index_entry *a, const git_index_entry *b)
{
    if (!a || !b)
        return !a && !b;
    return a->mode == b->mode && git->git_oid_cmp(&a->id, &b->id) == 0;
}

/* The stat data, by which git skips reading a file, is only valid for an entry that has the file's content. */
static git_index_entry make_entry(const struct commit_run *c, const struct commit_item *item,
                                  const struct commit_merge_version *version)
{
    git_index_entry entry = { .path = item->path, .mode = version->mode, .id = version->id };

    return item->is && is_same_entry(c->wt.git, item->is, &entry) ? *item->is : entry;
}

/* A version that is too large for memory is in the directory, or in HEAD. */
static int write_version(struct commit_run *c, const struct commit_item *item, const struct commit_merge_version *version,
                         struct err *err)
{
    git_index_entry again;
    git_oid id;

    if (c->is_dry || !version->mode)
        return 0;
    if (version->has_bytes)
        return worktree_put(&c->wt, &version->bytes, false, &id, err);
    if (item->is && c->wt.git->git_oid_cmp(&item->is->id, &version->id) == 0)
        return worktree_entry(&c->wt, item->path, false, &again, err) < 0 ? -EIO : 0;
    return 0;
}

static bool can_be_written(const struct commit_run *c, const struct commit_item *item,
                           const struct commit_merge_version *version)
{
    const struct libgit *git = c->wt.git;

    return !version->mode || version->has_bytes || (item->had_head && git->git_oid_cmp(&item->head.id, &version->id) == 0) ||
           (item->is && git->git_oid_cmp(&item->is->id, &version->id) == 0);
}

/* Merges what was approved into HEAD's version. */
static int add_parts(struct commit_run *c, size_t i, struct err *err)
{
    const git_index_entry *head = c->items[i].had_head ? &c->items[i].head : NULL;
    autodone(commit_merge_version) struct commit_merge_version version = { 0 };
    autodone(commit_merge) struct commit_merge merge = { 0 };
    struct commit_item *item = &c->items[i];
    int r = 0;

    /* HEAD has the file's present content, so there is nothing to separate. */
    if (is_same_entry(c->wt.git, item->is, head))
        return 0;
    r = commit_merge_load(&c->wt, item->path, c->request->parts_fd, &c->request->parts[i], &merge, err);
    if (r == 0)
        r = commit_merge_onto(&merge, head, &version, &item->reason, err);
    if (r < 0)
        return r;
    if (r == 0 && !can_be_written(c, item, &version)) {
        item->reason = "is too large to be committed apart from what was changed in it since; commit it yourself";
        r = 1;
    }
    item->status = r == 1 ? COMMIT_BLOCKED : COMMIT_DIFFERS;
    if (r == 1)
        return 0;
    item->is_gone = !version.mode;
    item->entry = make_entry(c, item, &version);
    if (is_same_entry(c->wt.git, head, item->is_gone ? NULL : &item->entry))
        item->status = COMMIT_IN_HEAD;
    return item->status == COMMIT_DIFFERS ? write_version(c, item, &version, err) : 0;
}

static void add_whole(struct commit_run *c, struct commit_item *item)
{
    item->is_gone = !item->is;
    item->entry = item->found;
    if (!is_same_entry(c->wt.git, item->had_head ? &item->head : NULL, item->is))
        item->status = COMMIT_DIFFERS;
}

static int commit_add_item(struct commit_run *c, size_t i, struct err *err)
{
    const struct libgit *git = c->wt.git;
    struct commit_item *item = &c->items[i];
    int r = worktree_path(&c->wt, c->request->paths[i], &item->path, err);

    if (r == 0)
        r = check_submodules(c, item->path, err);
    if (r == 0)
        r = worktree_entry(&c->wt, item->path, c->is_dry || c->request->parts, &item->found, err);
    if (r < 0)
        return r;
    item->is = r == 1 ? NULL : &item->found;
    const git_index_entry *head = git->git_index_get_bypath(c->index, item->path, 0);
    item->had_head = head;
    if (head) {
        item->head = *head;
        item->head.path = item->path;
    }
    r = 0;
    if (c->request->parts)
        r = add_parts(c, i, err);
    else
        add_whole(c, item);
    if (r < 0 || item->status != COMMIT_DIFFERS)
        return r;
    r = !item->is_gone ? git->git_index_add(c->index, &item->entry) : head ? git->git_index_remove(c->index, item->path, 0) : 0;
    return r < 0 ? libgit_failed(git, "adding to the commit", err) : 0;
}

static int prepare_commit(struct commit_run *c, struct err *err)
{
    int r = worktree_open(c->request->project_path, c->request->roots, &c->wt, err);

    if (r < 0)
        return r;
    if (c->wt.git->git_repository_state(c->wt.repo) != GIT_REPOSITORY_STATE_NONE)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY,
                       "the repository is in the middle of a merge, rebase or the like; "
                       "finish that first");
    r = read_head(c, err);
    c->items = xalloc((c->request->path_count + 1) * sizeof(*c->items));
    for (size_t i = 0; i < c->request->path_count && r == 0; i++)
        r = commit_add_item(c, i, err);
    return r;
}

/* ---- the project's index ---- */

static int open_project_index(struct commit_run *c, struct err *err)
{
    int r = c->wt.git->git_repository_index(&c->project, c->wt.repo);

    if (r == 0)
        r = c->wt.git->git_index_read(c->project, true);
    return r < 0 ? libgit_failed(c->wt.git, "reading the project's index", err) : 0;
}

/* A staged version is kept: the approved changes are merged into it, or it stays as it is. Returns 1 if it stays. */
static int stage_parts(struct commit_run *c, size_t i, bool *is_gone, git_index_entry *entry, struct err *err)
{
    struct commit_item *item = &c->items[i];
    const git_index_entry *staged = item->had_staged ? &item->staged : NULL;
    autodone(commit_merge_version) struct commit_merge_version version = { 0 };
    autodone(commit_merge) struct commit_merge merge = { 0 };
    const char *reason;
    int r;

    if (item->status != COMMIT_DIFFERS)
        return 1;
    if (is_same_entry(c->wt.git, staged, item->had_head ? &item->head : NULL))
        return 0;
    r = commit_merge_load(&c->wt, item->path, c->request->parts_fd, &c->request->parts[i], &merge, err);
    if (r == 0)
        r = commit_merge_onto(&merge, staged, &version, &reason, err);
    if (r == 0 && !version.mode && staged) /* somebody's staged work in a file that the agent removed */
        r = 1;
    if (r != 0 || !can_be_written(c, item, &version))
        return r < 0 ? r : 1;
    *is_gone = !version.mode;
    *entry = make_entry(c, item, &version);
    return write_version(c, item, &version, err);
}

static int stage_item(struct commit_run *c, size_t i, struct err *err)
{
    const struct libgit *git = c->wt.git;
    struct commit_item *item = &c->items[i];
    const git_index_entry *was = git->git_index_get_bypath(c->project, item->path, 0);
    git_index_entry entry = item->entry;
    bool is_gone = item->is_gone;
    int r = 0;

    item->had_staged = was;
    if (was) {
        item->staged = *was;
        item->staged.path = item->path;
    }
    if (c->request->parts)
        r = stage_parts(c, i, &is_gone, &entry, err);
    if (r != 0)
        return r < 0 ? r : 0;
    item->is_staged_anew = true;
    if (!is_gone)
        r = git->git_index_add(c->project, &entry);
    else if (was)
        r = git->git_index_remove(c->project, item->path, 0);
    return r < 0 ? libgit_failed(git, "staging", err) : 0;
}

static int stage_items(struct commit_run *c, struct err *err)
{
    const struct libgit *git = c->wt.git;
    int r = 0;

    for (size_t i = 0; i < c->request->path_count && r == 0; i++)
        r = stage_item(c, i, err);
    if (r < 0)
        return r;
    r = git->git_index_write(c->project);
    if (r == GIT_ELOCKED)
        return err_set(err, ERR_UNAVAILABLE, -EBUSY, "the project's index is locked by another git; try again");
    return r < 0 ? libgit_failed(git, "writing the project's index", err) : 0;
}

/* The branch did not move: restores what was staged. */
static void unstage_items(struct commit_run *c)
{
    const struct libgit *git = c->wt.git;

    for (size_t i = 0; i < c->request->path_count; i++) {
        struct commit_item *item = &c->items[i];
        if (!item->is_staged_anew)
            continue;
        if (item->had_staged)
            git->git_index_add(c->project, &item->staged);
        else
            git->git_index_remove(c->project, item->path, 0);
    }
    git->git_index_write(c->project);
}

/* ---- the commit ---- */

static int make_signature(const struct libgit *git, const struct person *person, git_signature **ret, struct err *err)
{
    return git->git_signature_new(ret, person->name.data, person->mail.data, (git_time_t) time(NULL), 0) < 0
               ? libgit_failed(git, "naming the author", err)
               : 0;
}

static int write_commit(struct commit_run *c, const git_signature *author, const git_signature *committer, git_oid *ret,
                        struct err *err)
{
    const struct libgit *git = c->wt.git;
    git_commit *parent = NULL;
    git_tree *tree = NULL;
    git_oid tree_id;
    int r = git->git_index_write_tree_to(&tree_id, c->index, c->wt.repo);

    if (r == 0)
        r = git->git_tree_lookup(&tree, c->wt.repo, &tree_id);
    if (r == 0 && !git->git_oid_is_zero(&c->head))
        r = git->git_commit_lookup(&parent, c->wt.repo, &c->head);
    const git_commit *parents[] = { parent };
    if (r == 0)
        r = git->git_commit_create(ret, c->wt.repo, NULL, author, committer, NULL, c->request->message, tree, parent ? 1 : 0,
                                   parents);
    git->git_tree_free(tree);
    git->git_commit_free(parent);
    return r < 0 ? libgit_failed(git, "writing the commit", err) : 0;
}

/* Finds the reference to move: the branch of HEAD, or HEAD itself. */
static int find_branch(struct commit_run *c, char *out, size_t cap, struct err *err)
{
    const struct libgit *git = c->wt.git;
    git_reference *head = NULL;
    int r = git->git_reference_lookup(&head, c->wt.repo, "HEAD");

    if (r < 0)
        return libgit_failed(git, "reading HEAD", err);
    const char *target =
        git->git_reference_type(head) == GIT_REFERENCE_SYMBOLIC ? git->git_reference_symbolic_target(head) : NULL;
    int n = snprintf(out, cap, "%s", target ? target : "HEAD");
    git->git_reference_free(head);
    return n < 0 || (size_t) n >= cap ? err_invalid(err, "the name of the branch is too long") : 0;
}

static int move_branch(struct commit_run *c, const char *branch, const git_oid *to, struct err *err)
{
    const struct libgit *git = c->wt.git;
    git_reference *moved = NULL;
    bool is_first = git->git_oid_is_zero(&c->head);
    autofree char *subject = xdupn(c->request->message, strcspn(c->request->message, "\n"));
    autofree char *log = xprintf("commit%s: %s", is_first ? " (initial)" : "", subject);
    int r = git->git_reference_create_matching(&moved, c->wt.repo, branch, to, !is_first, is_first ? NULL : &c->head, log);

    git->git_reference_free(moved);
    if (r == GIT_EMODIFIED || r == GIT_EEXISTS)
        return err_set(err, ERR_ABORTED, -ESTALE, "somebody else has committed meanwhile; try again");
    return r < 0 ? libgit_failed(git, "moving the branch", err) : 0;
}

static int commit_changed(struct commit_run *c, struct commit *ret, struct err *err)
{
    const struct libgit *git = c->wt.git;
    git_signature *author = NULL, *committer = NULL;
    struct person by, of;
    git_oid id;
    int r;

    attribution_author(c->request->attribution, &by);
    attribution_committer(c->request->attribution, &of);
    r = find_branch(c, ret->branch, sizeof(ret->branch), err);
    if (r == 0)
        r = make_signature(git, &by, &author, err);
    if (r == 0)
        r = make_signature(git, &of, &committer, err);
    if (r == 0 && git->git_repository_set_ident(c->wt.repo, of.name.data, of.mail.data) < 0)
        r = libgit_failed(git, "naming the committer", err);
    if (r == 0)
        r = write_commit(c, author, committer, &id, err);
    /* The index comes first: after a kill the paths are staged and not committed, which loses nothing. In the other order,
     * the index would revert the commit. */
    if (r == 0)
        r = stage_items(c, err);
    if (r == 0) {
        r = move_branch(c, ret->branch, &id, err);
        if (r < 0)
            unstage_items(c);
    }
    if (r == 0)
        git->git_oid_tostr(ret->hash, sizeof(ret->hash), &id);
    git->git_signature_free(author);
    git->git_signature_free(committer);
    person_done(&by);
    person_done(&of);
    return r;
}

static int count_changed(const struct commit_run *c, size_t *ret, struct err *err)
{
    const struct commit_item *first = NULL;
    size_t blocked = 0;

    for (size_t i = 0; i < c->request->path_count; i++) {
        const struct commit_item *item = &c->items[i];
        *ret += item->status == COMMIT_DIFFERS;
        blocked += item->status == COMMIT_BLOCKED;
        first = !first && item->status == COMMIT_BLOCKED ? item : first;
    }
    if (!first)
        return 0;
    autofree char *shown = apply_txn_quote(first->path), *more = xprintf(" (and %zu more files like it)", blocked - 1);
    return err_set_reason(
        err, err_set(err, ERR_FAILED_PRECONDITION, -EEXIST, "%s %s%s", shown, first->reason, blocked > 1 ? more : ""),
        "FOREIGN_CHANGES");
}

/* ---- running confined ---- */

struct confined_call {
    const struct commit_request *request;
    struct commit *made;       /* of commit_make() */
    struct commit_view *views; /* of commit_preview() */
    char *hash;                /* of commit_head() */
};

static int make_confined(void *cookie, struct err *err)
{
    const struct confined_call *call = cookie;
    struct commit_run c = { .request = call->request, .wt = WORKTREE_NONE };
    int r = prepare_commit(&c, err);

    if (r == 0)
        r = open_project_index(&c, err);
    if (r == 0)
        r = count_changed(&c, &call->made->changed_count, err);
    if (r == 0 && call->made->changed_count > 0)
        r = commit_changed(&c, call->made, err);
    commit_run_done(&c);
    return r;
}

static int preview_confined(void *cookie, struct err *err)
{
    const struct confined_call *call = cookie;
    struct commit_run c = { .request = call->request, .wt = WORKTREE_NONE, .is_dry = true };
    int r = prepare_commit(&c, err);

    for (size_t i = 0; r == 0 && i < call->request->path_count; i++)
        call->views[i] = (struct commit_view){ c.items[i].status, c.items[i].reason };
    commit_run_done(&c);
    return r;
}

static int head_confined(void *cookie, struct err *err)
{
    const struct confined_call *call = cookie;
    autodone(worktree) struct worktree wt = WORKTREE_NONE;
    git_oid commit, tree;
    int r = worktree_open(call->request->project_path, call->request->roots, &wt, err);

    if (r == 0)
        r = worktree_head(&wt, &commit, &tree, err);
    if (r == 0 && !wt.git->git_oid_is_zero(&commit))
        wt.git->git_oid_tostr(call->hash, COMMIT_HASH_MAX, &commit);
    return r;
}

static int open_confined(void *cookie, struct err *err)
{
    const struct confined_call *call = cookie;
    autodone(worktree) struct worktree wt = WORKTREE_NONE;

    return worktree_open(call->request->project_path, call->request->roots, &wt, err);
}

/* The library is loaded first, because it is outside of the roots. */
static int run_confined(confine_fn fn, struct confined_call *call, struct err *err)
{
    struct confine_bounds bounds = { .roots = call->request->roots,
                                     .read_fd = call->request->parts ? call->request->parts_fd : -1 };
    const struct libgit *git;
    int r = libgit_get(&git, err);

    return r < 0 ? r : confine_run(&bounds, fn, call, err);
}

int commit_make(const struct commit_request *request, struct commit *ret, struct err *err)
{
    *ret = COMMIT_NONE;
    return run_confined(make_confined, &(struct confined_call){ .request = request, .made = ret }, err);
}

int commit_preview(const struct commit_request *request, struct commit_view *ret, struct err *err)
{
    return run_confined(preview_confined, &(struct confined_call){ .request = request, .views = ret }, err);
}

bool commit_is_possible(const char *project_path, const char *const *roots)
{
    struct commit_request where = { .project_path = project_path, .roots = roots };
    struct err ignored = ERR_NONE;

    return run_confined(open_confined, &(struct confined_call){ .request = &where }, &ignored) == 0;
}

int commit_head(const char *project_path, const char *const *roots, char ret[COMMIT_HASH_MAX], struct err *err)
{
    struct commit_request where = { .project_path = project_path, .roots = roots };
    int r;

    *ret = 0;
    r = run_confined(head_confined, &(struct confined_call){ .request = &where, .hash = ret }, err);
    return r == -ENOENT ? 0 : r;
}
