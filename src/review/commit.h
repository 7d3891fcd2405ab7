/*
 * A commit of what was approved in some files of a project, by libgit2 alone.
 *
 * The tree is that of HEAD with these files, made in an index of its own: what somebody else has staged stays out, and stays staged. Of a
 * file, HEAD's version gets what was approved and nothing else (contribution.h), by merging: lines of somebody else in the same file stay in
 * the directory, and staged if they were. Where both are in the same lines they cannot be told apart, and nothing is committed.
 *
 * The project's index is brought up to date for these paths; what was staged there gets what was approved, if that merges, and is left as it
 * is if not. The branch moves only if it is where it was, with a line in its reflog. No hooks are run, no filters that are programs (a
 * file that needs one is refused), no signing.
 *
 * The repository, with all that it takes objects from, must be in the roots of whoever asks, if there are any; nothing else is reached on the
 * way (git_location.h, confine.h). As root, all is done with the rights of the project's owner, or where that is root, of the repository's.
 *
 * Refused, before anything is written: no repository, one without a work tree, one in the middle of a merge, rebase or the like, paths
 * in a submodule or in another repository below.
 */
#pragma once

#include "base/err.h"
#include "review/attribution.h"

#define COMMIT_HASH_MAX 65

/* What was approved in one file: names of contributions, the oldest first. */
struct commit_parts {
    const char *const *names;
    size_t count;
};

struct commit_request {
    const char *project_path; /* the repository's work tree, or a directory in it */
    const char *const *roots; /* ended by NULL, as in base/root_dir.h; NULL: anywhere */
    const char *const *paths; /* from there, no leading slash; one that is not there any more is deleted in the commit */
    size_t path_count;
    const struct attribution *attribution;
    const char *message;
    const struct commit_parts *parts; /* one for each path; NULL: all is taken as it is in the directory */
    int parts_fd;                     /* borrowed: the directory of the contributions */
};

struct commit {
    char hash[COMMIT_HASH_MAX]; /* empty: HEAD has it all, there is no commit */
    char branch[256];           /* "refs/heads/main", or "HEAD" if that is detached */
    size_t changed_count;       /* paths that HEAD gets anew */
};

#define COMMIT_NONE ((struct commit){ .hash = "" })

/* -EEXIST, ERR_FAILED_PRECONDITION, FOREIGN_CHANGES: somebody else's lines cannot be told from what was approved. */
int commit_make(const struct commit_request *request, struct commit *ret, struct err *err);

enum commit_status {
    COMMIT_IN_HEAD, /* there is nothing to commit */
    COMMIT_DIFFERS,
    COMMIT_BLOCKED, /* `reason` says why */
};

struct commit_view {
    enum commit_status status;
    const char *reason; /* a literal, which goes after the path: "holds changes ..."; and what to do */
};

/* What a commit would do with each of the paths. For previews. */
int commit_preview(const struct commit_request *request, struct commit_view *ret, struct err *err);

/* Whether it is in a repository at all. */
bool commit_is_possible(const char *project_path, const char *const *roots);

/* The commit that HEAD is at; empty when there is none or no repository. */
int commit_head(const char *project_path, const char *const *roots, char ret[COMMIT_HASH_MAX], struct err *err);
