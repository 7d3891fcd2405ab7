/*
 * The paths that a rule is about: a sequence of components, each a glob or `**` (zero or more components).
 *
 * A pattern is anchored at the root of the workspace; a leading `**` makes it float. It matches whole paths. A trailing `**`
 * matches the path before it too: `/x/` followed by `**` covers `/x`. Consecutive `**` count as one. A pattern is immutable
 * once built.
 *
 * Patterns know nothing of levels and priorities. atom.c makes them from rules.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "policy/glob.h"

#define PATTERN_LEN_MAX 4096

struct pattern_part {
    bool any_depth;   /* `**`; `glob` is unused */
    struct glob glob; /* owned */
};

struct pattern {
    struct pattern_part *parts; /* owned */
    size_t count;
};

/* How specific a pattern is. pattern_specificity_cmp() compares the fields in this order. */
struct specificity {
    bool literal;         /* no wildcard at all */
    bool anchored;        /* the first component is not `**` */
    uint32_t prefix_len;  /* bytes before the first wildcard, slashes included */
    uint32_t literal_len; /* units that are no wildcards */
    uint32_t any_depths;  /* number of `**` components; fewer are more specific */
};

struct pattern *pattern_new(void);
void pattern_free(struct pattern *pattern);
DEFINE_AUTOPTR(pattern, pattern_free);

struct pattern *pattern_dup(const struct pattern *pattern, size_t skip_parts);

void pattern_add_any_depth(struct pattern *pattern);
void pattern_take_glob(struct pattern *pattern, struct glob *glob);
void pattern_prepend_any_depth(struct pattern *pattern);

bool pattern_is_literal(const struct pattern *pattern);
bool pattern_equals(const struct pattern *a, const struct pattern *b);

/* `path` is clean: "/" or "/a/b". Matches one pattern; the ruleset matches many at once and faster. */
bool pattern_matches(const struct pattern *pattern, const char *path, size_t len);

struct specificity pattern_specificity(const struct pattern *pattern);

/* Returns a positive number if `a` is the more specific. */
int pattern_specificity_cmp(const struct specificity *a, const struct specificity *b);

/* Returns the path of the first `count` components, which must be literal: "/a/b". */
char *pattern_dup_literal_path(const struct pattern *pattern, size_t count);
