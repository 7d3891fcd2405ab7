/*
 * Commits what was approved in some files of a project, by libgit2 alone.
 *
 * The tree is HEAD's with these files, made in a separate index: what somebody else has staged is not committed, and stays
 * staged. HEAD's version of a file gets only what was approved (contribution.h), by merging: other people's lines in the file
 * stay in the directory, and staged if they were. If both changed the same lines they cannot be separated, and nothing is
 * committed.
 *
 * The project's index is updated for these paths; a staged version gets what was approved if that merges, and stays as it is
 * if not. The branch moves only if nobody else moved it, with a line in its reflog. No hooks are run, no external filters (a
 * file that needs one is refused), no signing.
 *
 * The repository, and every object store it borrows from, must be in the caller's roots, if there are any; nothing else is
 * accessed on the way (git_location.h, confine.h). As root, all is done with the rights of the project's owner, or, if that is
 * root, of the repository's.
 *
 * Refused before anything is written: no repository, a bare one, one in the middle of a merge, rebase or the like, paths in a
 * submodule or in a nested repository.
 */
#pragma once

#include "base/err.h"
#include "review/attribution.h"

#define COMMIT_HASH_MAX 65

/* The approved parts of one file: names of contributions, the oldest first. */
struct commit_parts {
    const char *const *names;
    size_t count;
};

struct commit_request {
    const char *project_path; /* the repository's work tree, or a directory in it */
    const char *const *roots; /* NULL-terminated, as in base/root_dir.h; NULL: anywhere */
    const char *const *paths; /* from there, no leading slash; the commit deletes a path that no longer exists */
    size_t path_count;
    const struct attribution *attribution;
    const char *message;
    const struct commit_parts *parts; /* one for each path; NULL: each file is committed as it is in the directory */
    int parts_fd;                     /* borrowed: the directory of the contributions */
};

struct commit {
    char hash[COMMIT_HASH_MAX]; /* empty: HEAD has all of it, there is no commit */
    char branch[256];           /* "refs/heads/main", or "HEAD" if that is detached */
    size_t changed_count;       /* paths that change in HEAD */
};

#define COMMIT_NONE ((struct commit){ .hash = "" })

/* -EEXIST, ERR_FAILED_PRECONDITION, FOREIGN_CHANGES: somebody else's lines cannot be separated from the approved ones. */
int commit_make(const struct commit_request *request, struct commit *ret, struct err *err);

enum commit_status {
    COMMIT_IN_HEAD, /* nothing to commit */
    COMMIT_DIFFERS,
    COMMIT_BLOCKED, /* `reason` has the cause */
};

struct commit_view {
    enum commit_status status;
    const char *reason; /* a literal that follows the path in messages: "holds changes ..."; and what to do */
};

/* Reports what a commit would do with each of the paths. */
int commit_preview(const struct commit_request *request, struct commit_view *ret, struct err *err);

/* Tells whether the project is in a repository at all. */
bool commit_is_possible(const char *project_path, const char *const *roots);

/* HEAD's commit; empty if there is none or no repository. */
int commit_head(const char *project_path, const char *const *roots, char ret[COMMIT_HASH_MAX], struct err *err);
