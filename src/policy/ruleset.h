/*
 * Rules compiled for use: what level does this path have?
 *
 * A path is followed component by component. A `struct match_state` is where a path stands among the rules; a child's place is
 * one step from its parent's, at a cost that grows with neither the depth nor the number of rules. Whoever keeps inodes
 * keeps each one's place.
 *
 *     const struct match_state *at = ruleset_root(rules);
 *     struct match_state *child = ruleset_step(rules, at, "src", 3);
 *     match_state_level(child);
 *     match_state_unref(child);
 *
 * A ruleset is immutable and refcounted; to change rules, compile new ones and swap. Places belong to their ruleset and
 * must be unref'ed before its last reference goes. All functions may be called from any thread.
 *
 * It knows rules, not files: whether a hidden directory has something visible in it that exists is the fence's to find out,
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
    bool workspace_is_real; /* the codebase has a directory "workspace": a leading /workspace/ then means it */
    size_t cache_bytes;     /* for what is built lazily; 0 means RULESET_CACHE_BYTES */
};

#define RULESET_CACHE_BYTES ((size_t) 2 << 20)

/* `rules` is copied. `options` may be NULL. */
int ruleset_new(const struct rule_list *rules, const struct ruleset_options *options, struct ruleset **ret_rules,
                struct err *err);
struct ruleset *ruleset_ref(struct ruleset *rules);
void ruleset_unref(struct ruleset *rules);
DEFINE_AUTOPTR(ruleset, ruleset_unref);

/* Borrowed; as old as the ruleset. */
const struct match_state *ruleset_root(const struct ruleset *rules);

/* `name` is one component: not empty, no slash. The reference is the caller's. */
struct match_state *ruleset_step(struct ruleset *rules, const struct match_state *at, const char *name, size_t len);
struct match_state *match_state_ref(const struct match_state *match);
void match_state_unref(struct match_state *match);
DEFINE_AUTOPTR(match_state, match_state_unref);

/* What may be done with the path itself. LEVEL_NONE for a directory still leaves a passage possible. */
enum level match_state_level(const struct match_state *match);

/* The class (priority, then kind) that a grant below must reach: that of the strongest rule hiding this path or a directory
 * above it. ATOM_CLASS_NONE when nothing hides by rule. */
int64_t match_state_hider_class(const struct match_state *match);

/* False: no path beneath can be visible, whatever exists. Remembered per place. */
bool ruleset_may_show_below(struct ruleset *rules, const struct match_state *match);

/* False: no direct child of any name is `write`. True may be wrong for odd rules; creating then still fails. */
bool ruleset_may_write_child(struct ruleset *rules, const struct match_state *match);

/* True: every path beneath is `write`, whatever is created there. False may be wrong for odd rules. */
bool ruleset_writes_all_below(struct ruleset *rules, const struct match_state *match);

/* `path` is clean and absolute. The long way round, for single questions. */
enum level ruleset_level_of(struct ruleset *rules, const char *path);

/* The directories that exist when a sandbox starts because a `write` rule names them: "/output" for each call. */
typedef int (*ruleset_dir_fn)(const char *path, void *cookie);
int ruleset_each_writable_root(struct ruleset *rules, ruleset_dir_fn on_dir, void *cookie);

const struct rule_list *ruleset_rules(const struct ruleset *rules);
