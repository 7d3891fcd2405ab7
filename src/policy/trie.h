/*
 * All patterns of a ruleset, merged into one tree of components.
 *
 * Patterns that begin alike share nodes, so a path is described by a handful of nodes even among ten thousand rules. A
 * component leads to a node (a literal, `*`, a prefix, a suffix, another glob). A `**` node needs none: it is its parent's
 * `deeper` child, is entered together with the parent, and stays entered whatever component follows (it loops).
 *
 * One thread builds and seals a trie. Then it is immutable except for the lazily built tables of its globsets.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "policy/budget.h"
#include "policy/pattern.h"

#define TRIE_ROOT 0u
#define TRIE_NIL 0u /* the root is no node's child, so its number means "no child" */

struct trie_node {
    uint32_t first_child, sibling; /* all children, of every kind */
    uint32_t any;                  /* child by `*` */
    uint32_t deeper;               /* child by `**` */
    uint32_t prefixes, suffixes;   /* where the byte walks begin; 0: there are none */
    uint32_t parent;
    bool loops; /* this is a `**` node */
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

/* The nodes of a path. */
struct node_set {
    uint32_t *nodes; /* `small` or heap */
    size_t count, cap;
    uint32_t small[64];
};

void node_set_init(struct node_set *set);
void node_set_done(struct node_set *set);

/* Adds a node and its `**` child. */
void trie_enter(const struct trie *trie, uint32_t node, struct node_set *set);

/* Adds the nodes that one more component reaches from `node`. `hash` is trie_hash() of the name. */
void trie_follow(const struct trie *trie, uint32_t node, const char *name, size_t len, uint64_t hash, struct node_set *set);

/* The same for a name that no rule spells out: only `*` and `**` match it. */
void trie_follow_unnamed(const struct trie *trie, uint32_t node, struct node_set *set);

uint64_t trie_hash(const char *name, size_t len);
