/*
 * Which paths a rule speaks of: a sequence of components, each a glob or `**` (zero or more components).
 *
 * A pattern is anchored at the root of the workspace; a leading `**` is how it floats. It matches whole paths. A trailing
 * `**` matches the path before it too: what covers all beneath `/x` covers `/x`. Consecutive `**` are one. Immutable once
 * built.
 *
 * Patterns know nothing of levels and priorities: rules are turned into patterns by atom.c.
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
    bool any_depth;   /* `**`; the glob is then unused */
    struct glob glob; /* owned */
};

struct pattern {
    struct pattern_part *parts; /* owned */
    size_t count;
};

/* Which of two patterns is the more specific: compared field by field in this order, see pattern_specificity_cmp(). */
struct specificity {
    bool literal;         /* no wildcard at all */
    bool anchored;        /* first component is not `**` */
    uint32_t prefix_len;  /* bytes, slashes counted, before the first wildcard */
    uint32_t literal_len; /* units that stand for themselves */
    uint32_t any_depths;  /* `**` components: fewer is more specific */
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

/* `path` is clean: "/" or "/a/b". This is the slow and plain way; many rules at once are the ruleset's business. */
bool pattern_matches(const struct pattern *pattern, const char *path, size_t len);

struct specificity pattern_specificity(const struct pattern *pattern);

/* Positive when `a` is the more specific. */
int pattern_specificity_cmp(const struct specificity *a, const struct specificity *b);

/* The path of a pattern without wildcards: "/a/b". `count` parts of it are used. */
char *pattern_dup_literal_path(const struct pattern *pattern, size_t count);
