/*
 * Rules compiled for use: which level does a path have?
 *
 * A path is followed component by component. A `struct match_state` records where a path is among the rules. A child's state is
 * one step from its parent's, at a cost that grows with neither the depth nor the number of rules. A caller that keeps inodes
 * keeps the state of each.
 *
 *     const struct match_state *at = ruleset_root(rules);
 *     struct match_state *child = ruleset_step(rules, at, "src", 3);
 *     match_state_level(child);
 *     match_state_unref(child);
 *
 * A ruleset is immutable and refcounted; to change rules, compile new ones and swap. States belong to their ruleset and must be
 * unref'ed before its last reference goes. All functions may be called from any thread.
 *
 * A ruleset knows rules, not files. Whether a hidden directory contains something visible is for the fence to find out;
 * ruleset_may_show_below() only says when searching is pointless.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "policy/level.h"
#include "policy/rule.h"

struct ruleset;
struct match_state;

struct ruleset_options {
    bool workspace_is_real; /* the codebase has a directory "workspace", which a leading /workspace/ then means */
    size_t cache_bytes;     /* for lazily built tables; 0 means RULESET_CACHE_BYTES */
};

#define RULESET_CACHE_BYTES ((size_t) 2 << 20)

/* `rules` is copied. `options` may be NULL. */
int ruleset_new(const struct rule_list *rules, const struct ruleset_options *options, struct ruleset **ret_rules,
                struct err *err);
struct ruleset *ruleset_ref(struct ruleset *rules);
void ruleset_unref(struct ruleset *rules);
DEFINE_AUTOPTR(ruleset, ruleset_unref);

/* Borrowed; lives as long as the ruleset. */
const struct match_state *ruleset_root(const struct ruleset *rules);

/* `name` is one component: not empty, no slash. The caller owns the reference. */
struct match_state *ruleset_step(struct ruleset *rules, const struct match_state *at, const char *name, size_t len);
struct match_state *match_state_ref(const struct match_state *match);
void match_state_unref(struct match_state *match);
DEFINE_AUTOPTR(match_state, match_state_unref);

/* The level of the path itself. A directory of LEVEL_NONE may still be a passage. */
enum level match_state_level(const struct match_state *match);

/* The class (priority, then kind) that a grant below must reach: that of the strongest rule that hides this path or a directory
 * above it. ATOM_CLASS_NONE if no rule hides it. */
int64_t match_state_hider_class(const struct match_state *match);

/* Returns false if no path beneath can be visible, whatever exists. The answer is cached in the state. */
bool ruleset_may_show_below(struct ruleset *rules, const struct match_state *match);

/* Returns false if no direct child of any name is `write`. A wrong true is possible for unusual rules; creating then still
 * fails. */
bool ruleset_may_write_child(struct ruleset *rules, const struct match_state *match);

/* Returns true if every path beneath is `write`, whatever is created there. A wrong false is possible for unusual rules. */
bool ruleset_writes_all_below(struct ruleset *rules, const struct match_state *match);

/* The level of one path, which is clean and absolute. */
enum level ruleset_level_of(struct ruleset *rules, const char *path);

/* Calls `on_dir` for each directory that a `write` rule names ("/output"): they exist when a sandbox starts. */
typedef int (*ruleset_dir_fn)(const char *path, void *cookie);
int ruleset_each_writable_root(struct ruleset *rules, ruleset_dir_fn on_dir, void *cookie);

const struct rule_list *ruleset_rules(const struct ruleset *rules);
