/*
 * Copies a tree that an agent may have made into a directory where people will run git, without the parts that make git run
 * programs.
 *
 * Of each `.git` only the history is kept: objects, refs, HEAD, index, logs. Of its `config` only keys that start no program
 * and name no path are kept. Hooks, other settings and links are left out, and so is a `.git` that is a file or a link. For any
 * other directory that git would recognise as a repository (HEAD beside objects, refs or commondir), HEAD is left out.
 *
 * Symlinks that are absolute or leave the tree are kept and counted. `left_out` lists everything that was left out.
 */
#pragma once

#include "base/buf.h"
#include "codebase/extract.h"

#define GIT_FILTER_NAMED_MAX 8

struct git_filter {
    int to_dirfd;     /* borrowed: existing files count too */
    const char *path; /* borrowed: the place of the tree in its codebase */
    struct git_filter_directory {
        char *path; /* owned; in lower case, "" or ending with a slash */
        unsigned marks;
    } * directories; /* owned, sorted by path; directories with marks of a repository */
    size_t count, cap;
    struct buf left_out, links; /* names, at most GIT_FILTER_NAMED_MAX, as text for people */
    size_t left_out_count, link_count;
};

void git_filter_init(struct git_filter *filter, int to_dirfd, const char *path);
void git_filter_done(struct git_filter *filter);

/* Two filters for two passes: the first keeps nothing and only collects marks; the second keeps what is allowed. */
struct extract_filter git_filter_scan(struct git_filter *filter);
struct extract_filter git_filter_apply(struct git_filter *filter);

/* Copies the keys of a git configuration that start no program and name no path; adds the names of the others to `dropped`,
 * separated by spaces. */
void git_filter_config(const char *text, size_t len, struct buf *out, struct buf *dropped);
