/*
 * All patterns of a ruleset, folded into one tree of components.
 *
 * Patterns that begin alike share nodes, so where a path stands among ten thousand rules is a handful of nodes. A node is
 * reached by one component (a literal, `*`, a prefix, a suffix, another glob) or, for `**`, by none: a `**` node hangs below
 * its parent as `deeper`, is entered together with it, and stays entered whatever comes (it loops).
 *
 * Built by one thread, sealed, then immutable but for the lazily built tables of its globsets.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "policy/budget.h"
#include "policy/pattern.h"

#define TRIE_ROOT 0u
#define TRIE_NIL 0u /* the root is nobody's child, so its number can mean "no child" */

struct trie_node {
    uint32_t first_child, sibling; /* all children, whatever leads to them */
    uint32_t any;                  /* child by `*` */
    uint32_t deeper;               /* child by `**` */
    uint32_t prefixes, suffixes;   /* where the byte walks begin; 0: there are none */
    uint32_t parent;
    bool loops; /* this is a `**` */
    bool has_literals;
    struct globset *others; /* owned */
};

struct trie;

/* `budget` is borrowed and outlives the trie. */
struct trie *trie_new(struct budget *budget);
void trie_free(struct trie *trie);
DEFINE_AUTOPTR(trie, trie_free);

/* Returns the node at which the pattern ends. The pattern is borrowed and outlives the trie. */
uint32_t trie_add(struct trie *trie, const struct pattern *pattern);
void trie_seal(struct trie *trie);

const struct trie_node *trie_node(const struct trie *trie, uint32_t node);
size_t trie_node_count(const struct trie *trie);

/* Nodes of a path, as a step collects them. */
struct node_set {
    uint32_t *nodes; /* `small` or heap */
    size_t count, cap;
    uint32_t small[64];
};

void node_set_init(struct node_set *set);
void node_set_done(struct node_set *set);

/* Adds a node and the `**` that hangs below it. */
void trie_enter(const struct trie *trie, uint32_t node, struct node_set *set);

/* Adds the nodes that one more component leads to from `node`. `hash` is trie_hash() of the name. */
void trie_follow(const struct trie *trie, uint32_t node, const char *name, size_t len, uint64_t hash, struct node_set *set);

/* The same for a name that no rule spells out: only `*` and `**` are followed. */
void trie_follow_unnamed(const struct trie *trie, uint32_t node, struct node_set *set);

uint64_t trie_hash(const char *name, size_t len);
