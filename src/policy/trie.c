#include "policy/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "policy/globset.h"

/* A child by literal name. All nodes share one open-addressed table. */
struct literal_edge {
    uint32_t node;
    uint32_t child; /* TRIE_NIL: the slot is free */
    uint64_t hash;
    const char *name; /* borrowed from a pattern */
    size_t len;
};

/* A byte of a prefix (from the left) or of a suffix (from the right). The walks of all nodes share one open-addressed table and
 * one numbering of byte nodes. A prefix or suffix may end at a byte node, which then leads to a child. */
struct byte_edge {
    uint64_t key; /* byte node << 8 | byte, plus one; 0: the slot is free */
    uint32_t to;
};

struct trie {
    struct budget *budget; /* borrowed */
    struct trie_node *nodes;
    size_t node_count, node_cap;
    struct literal_edge *literals;
    size_t literal_count, literal_cap; /* cap is a power of two or 0 */
    struct byte_edge *bytes;
    size_t byte_count, byte_cap; /* as literal_cap */
    uint32_t *byte_node_child;   /* by byte node: the child it leads to, or TRIE_NIL */
    size_t byte_node_count, byte_node_cap;
};

/* Names are short: one multiplication per eight bytes. Collisions are harmless: the table holds only what rules name, and
 * look-ups never add to it. */
uint64_t trie_hash(const char *name, size_t len)
{
    uint64_t h = len * 0x9E3779B97F4A7C15u;

    for (; len >= 8; name += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, name, 8);
        h = (h ^ word) * 0xFF51AFD7ED558CCDu;
        h ^= h >> 29;
    }
    if (len > 0) {
        uint64_t word = 0;
        memcpy(&word, name, len);
        h = (h ^ word) * 0xFF51AFD7ED558CCDu;
        h ^= h >> 29;
    }
    return h;
}

static uint64_t trie_hash_mix(uint64_t h)
{
    h *= 0xC4CEB9FE1A85EC53u;
    return h ^ h >> 32;
}

static uint32_t trie_new_node(struct trie *trie, uint32_t parent)
{
    uint32_t number = (uint32_t) trie->node_count;

    vec_room(&trie->nodes, &trie->node_cap, trie->node_count);
    trie->nodes[trie->node_count++] = (struct trie_node){ .parent = parent };
    if (number != TRIE_ROOT) {
        trie->nodes[number].sibling = trie->nodes[parent].first_child;
        trie->nodes[parent].first_child = number;
    }
    return number;
}

static uint32_t new_byte_node(struct trie *trie)
{
    vec_room(&trie->byte_node_child, &trie->byte_node_cap, trie->byte_node_count);
    trie->byte_node_child[trie->byte_node_count] = TRIE_NIL;
    return (uint32_t) trie->byte_node_count++;
}

struct trie *trie_new(struct budget *budget)
{
    struct trie *trie = xnew(struct trie);

    trie->budget = budget;
    trie_new_node(trie, TRIE_ROOT);
    new_byte_node(trie); /* byte node 0 is unused */
    return trie;
}

void trie_free(struct trie *trie)
{
    if (!trie)
        return;
    for (size_t i = 0; i < trie->node_count; i++)
        globset_free(trie->nodes[i].others);
    free(trie->nodes);
    free(trie->literals);
    free(trie->bytes);
    free(trie->byte_node_child);
    free(trie);
}

const struct trie_node *trie_node(const struct trie *trie, uint32_t node)
{
    return &trie->nodes[node];
}

size_t trie_node_count(const struct trie *trie)
{
    return trie->node_count;
}

static struct literal_edge *find_literal(const struct trie *trie, uint32_t node, const char *name, size_t len, uint64_t hash)
{
    size_t mask = trie->literal_cap - 1;

    for (size_t i = trie_hash_mix(hash ^ node) & mask;; i = (i + 1) & mask) {
        struct literal_edge *edge = &trie->literals[i];
        if (edge->child == TRIE_NIL)
            return edge;
        if (edge->hash == hash && edge->node == node && edge->len == len && memcmp(edge->name, name, len) == 0)
            return edge;
    }
}

static void trie_grow_literals(struct trie *trie)
{
    struct literal_edge *old = trie->literals;
    size_t old_cap = trie->literal_cap;

    trie->literal_cap = old_cap ? old_cap * 2 : 16;
    trie->literals = xalloc(trie->literal_cap * sizeof(*trie->literals));
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i].child != TRIE_NIL)
            *find_literal(trie, old[i].node, old[i].name, old[i].len, old[i].hash) = old[i];
    }
    free(old);
}

static uint32_t literal_child(struct trie *trie, uint32_t node, const struct glob *glob)
{
    uint64_t hash = trie_hash(glob->text, glob->text_len);

    if (trie->literal_count * 2 >= trie->literal_cap)
        trie_grow_literals(trie);
    struct literal_edge *edge = find_literal(trie, node, glob->text, glob->text_len, hash);
    if (edge->child == TRIE_NIL) {
        *edge = (struct literal_edge){ node, trie_new_node(trie, node), hash, glob->text, glob->text_len };
        trie->literal_count++;
        trie->nodes[node].has_literals = true;
    }
    return edge->child;
}

static struct byte_edge *find_byte(const struct trie *trie, uint32_t byte_node, unsigned char byte)
{
    uint64_t key = ((uint64_t) byte_node << 8 | byte) + 1;
    size_t mask = trie->byte_cap - 1;
    size_t i = trie_hash_mix(key) & mask;

    while (trie->bytes[i].key != 0 && trie->bytes[i].key != key)
        i = (i + 1) & mask;
    return &trie->bytes[i];
}

static void trie_grow_bytes(struct trie *trie)
{
    struct byte_edge *old = trie->bytes;
    size_t old_cap = trie->byte_cap;

    trie->byte_cap = old_cap ? old_cap * 2 : 64;
    trie->bytes = xalloc(trie->byte_cap * sizeof(*trie->bytes));
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i].key != 0)
            *find_byte(trie, (uint32_t) ((old[i].key - 1) >> 8), (unsigned char) (old[i].key - 1)) = old[i];
    }
    free(old);
}

static uint32_t step_or_add_byte(struct trie *trie, uint32_t byte_node, unsigned char byte)
{
    if (trie->byte_count * 2 >= trie->byte_cap)
        trie_grow_bytes(trie);
    struct byte_edge *edge = find_byte(trie, byte_node, byte);
    if (edge->key == 0) {
        *edge = (struct byte_edge){ .key = ((uint64_t) byte_node << 8 | byte) + 1, .to = new_byte_node(trie) };
        trie->byte_count++;
    }
    return edge->to;
}

static uint32_t affix_child(struct trie *trie, uint32_t node, const struct glob *glob)
{
    bool suffix = glob->shape == GLOB_SUFFIX;
    uint32_t byte_node = suffix ? trie->nodes[node].suffixes : trie->nodes[node].prefixes;

    if (byte_node == 0) {
        byte_node = new_byte_node(trie);
        if (suffix)
            trie->nodes[node].suffixes = byte_node;
        else
            trie->nodes[node].prefixes = byte_node;
    }
    for (size_t i = 0; i < glob->text_len; i++)
        byte_node = step_or_add_byte(trie, byte_node, (unsigned char) glob->text[suffix ? glob->text_len - 1 - i : i]);
    if (trie->byte_node_child[byte_node] == TRIE_NIL)
        trie->byte_node_child[byte_node] = trie_new_node(trie, node);
    return trie->byte_node_child[byte_node];
}

/* The child that a part of a pattern leads to. Equal globs of the last kind get a node each: they are rare, and that is correct
 * too. */
static uint32_t trie_add_part(struct trie *trie, uint32_t node, const struct pattern_part *part)
{
    uint32_t child;

    if (!part->any_depth && part->glob.shape == GLOB_LITERAL)
        return literal_child(trie, node, &part->glob);
    if (!part->any_depth && (part->glob.shape == GLOB_PREFIX || part->glob.shape == GLOB_SUFFIX))
        return affix_child(trie, node, &part->glob);
    child = part->any_depth ? trie->nodes[node].deeper : part->glob.shape == GLOB_ANY ? trie->nodes[node].any : TRIE_NIL;
    if (child != TRIE_NIL)
        return child;
    child = trie_new_node(trie, node);
    if (part->any_depth) {
        trie->nodes[node].deeper = child;
        trie->nodes[child].loops = true;
    } else if (part->glob.shape == GLOB_ANY) {
        trie->nodes[node].any = child;
    } else {
        if (!trie->nodes[node].others)
            trie->nodes[node].others = globset_new(trie->budget);
        globset_add(trie->nodes[node].others, &part->glob, child);
    }
    return child;
}

uint32_t trie_add(struct trie *trie, const struct pattern *pattern)
{
    uint32_t node = TRIE_ROOT;

    for (size_t i = 0; i < pattern->count; i++)
        node = trie_add_part(trie, node, &pattern->parts[i]);
    return node;
}

void trie_seal(struct trie *trie)
{
    for (size_t i = 0; i < trie->node_count; i++) {
        if (trie->nodes[i].others)
            globset_seal(trie->nodes[i].others);
    }
}

void node_set_init(struct node_set *set)
{
    set->nodes = set->small;
    set->count = 0;
    set->cap = ARRAY_LEN(set->small);
}

void node_set_done(struct node_set *set)
{
    if (set->nodes != set->small)
        free(set->nodes);
}

static void node_set_add(struct node_set *set, uint32_t node)
{
    if (set->count == set->cap) {
        bool was_small = set->nodes == set->small;
        set->nodes = xgrow(was_small ? NULL : set->nodes, set->cap * 2, sizeof(*set->nodes));
        if (was_small)
            memcpy(set->nodes, set->small, sizeof(set->small));
        set->cap *= 2;
    }
    set->nodes[set->count++] = node;
}

void trie_enter(const struct trie *trie, uint32_t node, struct node_set *set)
{
    node_set_add(set, node);
    if (trie->nodes[node].deeper != TRIE_NIL)
        node_set_add(set, trie->nodes[node].deeper);
}

struct entering {
    const struct trie *trie;
    struct node_set *set;
};

static void on_glob_match(uint32_t target, void *cookie)
{
    const struct entering *entering = cookie;

    trie_enter(entering->trie, target, entering->set);
}

/* All prefixes (or suffixes) of the name that are in rules lie on one walk, which ends at the first byte that no rule has
 * there. */
static void trie_follow_affixes(const struct trie *trie, uint32_t byte_node, const char *name, size_t len, bool suffix,
                                struct node_set *set)
{
    for (size_t i = 0; i < len; i++) {
        const struct byte_edge *edge = find_byte(trie, byte_node, (unsigned char) name[suffix ? len - 1 - i : i]);
        if (edge->key == 0)
            return;
        byte_node = edge->to;
        if (trie->byte_node_child[byte_node] != TRIE_NIL)
            trie_enter(trie, trie->byte_node_child[byte_node], set);
    }
}

void trie_follow_unnamed(const struct trie *trie, uint32_t node, struct node_set *set)
{
    const struct trie_node *n = &trie->nodes[node];

    if (n->loops)
        node_set_add(set, node);
    if (n->any != TRIE_NIL)
        trie_enter(trie, n->any, set);
}

void trie_follow(const struct trie *trie, uint32_t node, const char *name, size_t len, uint64_t hash, struct node_set *set)
{
    const struct trie_node *n = &trie->nodes[node];

    trie_follow_unnamed(trie, node, set);
    if (n->has_literals) {
        const struct literal_edge *edge = find_literal(trie, node, name, len, hash);
        if (edge->child != TRIE_NIL)
            trie_enter(trie, edge->child, set);
    }
    if (n->prefixes)
        trie_follow_affixes(trie, n->prefixes, name, len, false, set);
    if (n->suffixes)
        trie_follow_affixes(trie, n->suffixes, name, len, true, set);
    if (n->others) {
        struct entering entering = { trie, set };
        globset_match(n->others, name, len, on_glob_match, &entering);
    }
}
