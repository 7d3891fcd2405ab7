/*
 * Lists the files of a directory, each with its level under a ruleset, as a sandbox over the directory would show them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "policy/ruleset.h"

struct policy_tree_entry {
    char *path; /* owned; "/src/a.py" */
    enum level level;
    bool is_dir;
    bool is_passage; /* a hidden directory that contains an existing visible file */
    bool is_made;    /* does not exist yet; a sandbox creates it at its start, because a write rule names it */
};

struct policy_tree {
    struct policy_tree_entry *entries; /* owned; sorted, a directory before its contents */
    size_t count, cap;
};

int policy_tree_init(struct policy_tree *tree, const char *dir, struct ruleset *rules, struct err *err);
void policy_tree_done(struct policy_tree *tree);

/* Returns NULL if the path does not exist. */
const struct policy_tree_entry *policy_tree_find(const struct policy_tree *tree, const char *path);

/* Reports whether the codebase has a directory "workspace" of its own (see ruleset_options). */
int policy_tree_has_workspace(const char *dir, bool *ret_has, struct err *err);
