/*
 * A commit of some paths of a project, as they are in its directory now, by libgit2 alone.
 *
 * The tree is that of HEAD with these paths, made in an index of its own: what somebody else has staged stays out, and stays staged.
 * The project's index is brought up to date for these paths, so that `git status` has nothing to say of them. The branch moves
 * only if it is where it was, with a line in its reflog. No hooks are run, no filters that are programs (a file that needs one is
 * refused), no signing.
 *
 * As root, all is done with the rights of whoever owns the repository.
 *
 * Refused, before anything is written: no repository, one without a work tree, one in the middle of a merge, rebase or the like, paths
 * in a submodule or in another repository below.
 */
#pragma once

#include "base/err.h"
#include "review/attribution.h"

#define COMMIT_HASH_MAX 65

struct commit_request {
    const char *project_path; /* the repository's work tree, or a directory in it */
    const char *const *paths; /* from there, no leading slash; one that is not there any more is deleted in the commit */
    size_t path_count;
    const struct attribution *attribution;
    const char *message;
};

struct commit {
    char hash[COMMIT_HASH_MAX]; /* empty: all paths are in HEAD as they are, there is no commit */
    char branch[256];           /* "refs/heads/main", or "HEAD" if that is detached */
    size_t changed_count;       /* paths that differ from HEAD */
};

#define COMMIT_NONE ((struct commit){ .hash = "" })

int commit_make(const struct commit_request *request, struct commit *ret, struct err *err);

/* Which of the paths differ from HEAD: `ret[i]` is whether the i-th does. For previews. */
int commit_look(const struct commit_request *request, bool *ret, struct err *err);

/* The commit that HEAD is at; empty when there is none or no repository. */
int commit_head(const char *project_path, char ret[COMMIT_HASH_MAX], struct err *err);
