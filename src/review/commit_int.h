/* Shared by the files of commit: an open repository, and how its paths are found. */
#pragma once

#include "review/commit.h"
#include "review/libgit.h"

struct worktree {
    const struct libgit *git;
    git_repository *repo; /* owned */
    char *prefix;         /* owned: the project's directory from the work tree's root, "" or with a slash at its end */
    int root_fd;          /* owned: of the work tree */
    uid_t uid, owner_uid; /* the rights to restore, and those used meanwhile */
    gid_t gid, owner_gid;
    bool has_changed_rights;
};

#define WORKTREE_NONE ((struct worktree){ .root_fd = -1 })

/* -ENOENT, ERR_FAILED_PRECONDITION: no repository. -EPERM, ERR_PERMISSION_DENIED, ROOT_NOT_ALLOWED: it is not in the roots. */
int worktree_open(const char *project_path, const char *const *roots, struct worktree *ret, struct err *err);
void worktree_done(struct worktree *worktree);

/* To be called around access to our own files, which the repository's owner may not read. */
void worktree_restore_rights(const struct worktree *worktree);
void worktree_assume_rights(const struct worktree *worktree);

/* The path from the work tree's root; refused if it does not belong to this repository. */
int worktree_path(const struct worktree *worktree, const char *path, char **ret, struct err *err);

/* HEAD's commit and its tree; both zero if the branch has no commit yet. */
int worktree_head(const struct worktree *worktree, git_oid *ret_commit, git_oid *ret_tree, struct err *err);

/* Fills an entry for the file at the path, and writes its blob unless `is_dry`. 0: it exists; 1: it does not. */
int worktree_entry(const struct worktree *worktree, const char *repo_path, bool is_dry, git_index_entry *ret, struct err *err);

/* Converts a file's bytes to what the repository stores. Refused if that needs a program. */
int worktree_clean(const struct worktree *worktree, const char *repo_path, struct buf *bytes, struct err *err);

/* Writes a blob, unless `is_dry`; and reads one. */
int worktree_put(const struct worktree *worktree, const struct buf *bytes, bool is_dry, git_oid *ret, struct err *err);
int worktree_get(const struct worktree *worktree, const git_oid *id, struct buf *out, struct err *err);

/* ---- commit_merge.c: merges the approved changes of a file, one after the other, onto git's version of it ---- */

/* One version of a file, as the repository stores it. */
struct commit_merge_version {
    uint32_t mode; /* git's; 0: nothing */
    git_oid id;
    bool has_bytes;
    struct buf bytes;
};

struct commit_merge_step {
    struct commit_merge_version before, after;
};

struct commit_merge {
    const struct worktree *wt;       /* borrowed */
    struct commit_merge_step *steps; /* owned; the oldest first */
    size_t count;
    const char *reason; /* a literal: the approved changes are not known and cannot be merged; NULL: they are */
};

/* `names` are those of contributions (contribution.h). */
int commit_merge_load(const struct worktree *wt, const char *repo_path, int parts_fd, const struct commit_parts *parts,
                      struct commit_merge *ret, struct err *err);
void commit_merge_done(struct commit_merge *merge);

/* Merges onto that version, or onto nothing. 0: `ret` is the result; 1: the changes cannot be separated; `ret_reason` is a
 * literal. */
int commit_merge_onto(const struct commit_merge *merge, const git_index_entry *onto, struct commit_merge_version *ret,
                      const char **ret_reason, struct err *err);
void commit_merge_version_done(struct commit_merge_version *version);
