/*
 * A tree that an agent may have made, on its way into a directory where somebody will call git: without what git would run.
 *
 * Of each `.git`, only what holds the history is taken: objects, refs, HEAD, index, logs. Of its `config` those keys are taken that start
 * no program and lead nowhere; hooks, other settings and links are left out, and so is a `.git` that is a file or a link. Of other
 * directories that git would take for a repository (HEAD beside objects, refs or commondir), HEAD is left out, and then it is none.
 *
 * Links that are absolute or lead out of the tree are taken, and counted. What was left out is in `left_out`.
 */
#pragma once

#include "base/buf.h"
#include "codebase/extract.h"

#define GIT_FILTER_NAMED_MAX 8

struct git_filter {
    int to_dirfd;     /* borrowed: what is there already counts */
    const char *path; /* borrowed: where the tree is in its codebase */
    struct git_filter_directory {
        char *path; /* owned; in lower case, "" or with a slash at its end */
        unsigned marks;
    } * directories; /* owned; which have marks of a repository, by path */
    size_t count, cap;
    struct buf left_out, links; /* names, at most GIT_FILTER_NAMED_MAX, as text for people */
    size_t left_out_count, link_count;
};

void git_filter_init(struct git_filter *filter, int to_dirfd, const char *path);
void git_filter_done(struct git_filter *filter);

/* Two filters: the first takes nothing and only looks, the second takes what may be taken. */
struct extract_filter git_filter_scan(struct git_filter *filter);
struct extract_filter git_filter_apply(struct git_filter *filter);

/* The keys of a git configuration that start no program and lead nowhere; the others are added to `dropped`, separated by spaces. */
void git_filter_config(const char *text, size_t len, struct buf *out, struct buf *dropped);
