/* What the files of commit share: a repository that is open, and how its paths are found. */
#pragma once

#include "review/commit.h"
#include "review/libgit.h"

struct worktree {
    const struct libgit *git;
    git_repository *repo; /* owned */
    char *prefix;         /* owned: the project's directory from the work tree's root, "" or with a slash at its end */
    int root_fd;          /* owned: of the work tree */
    uid_t uid;            /* whose rights are to be used, and which to go back to */
    gid_t gid;
    bool has_changed_rights;
};

#define WORKTREE_NONE ((struct worktree){ .root_fd = -1 })

/* -ENOENT, ERR_FAILED_PRECONDITION: there is no repository. */
int worktree_open(const char *project_path, struct worktree *ret, struct err *err);
void worktree_done(struct worktree *worktree);

/* The path from the work tree's root; refused if it is none that belongs to this repository. */
int worktree_path(const struct worktree *worktree, const char *path, char **ret, struct err *err);

/* What HEAD's commit is: its id and its tree; both zero when the branch has none yet. */
int worktree_head(const struct worktree *worktree, git_oid *ret_commit, git_oid *ret_tree, struct err *err);

/* Fills an entry for what is at the path now, its blob written unless `is_dry`. 0: there; 1: nothing is. */
int worktree_entry(const struct worktree *worktree, const char *repo_path, bool is_dry, git_index_entry *ret, struct err *err);
