#include "policy/verdict.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "policy/contain.h"

/* Remembered answers: an open-addressed table of (none, grant) pairs that stops taking new ones when it is large. */
#define MEMO_MAX 65536

struct memo_entry {
    uint64_t key; /* none << 32 | grant, plus one; 0: free */
    bool yields;
};

struct yield_memo {
    const struct atom_list *atoms; /* borrowed */
    pthread_mutex_t lock;
    struct memo_entry *entries; /* owned; guarded by lock */
    size_t count, cap;          /* guarded by lock */
};

struct yield_memo *yield_memo_new(const struct atom_list *atoms)
{
    struct yield_memo *memo = xnew(struct yield_memo);

    memo->atoms = atoms;
    pthread_mutex_init(&memo->lock, NULL);
    return memo;
}

void yield_memo_free(struct yield_memo *memo)
{
    if (!memo)
        return;
    pthread_mutex_destroy(&memo->lock);
    free(memo->entries);
    free(memo);
}

static struct memo_entry *find_entry(const struct yield_memo *memo, uint64_t key)
{
    size_t mask = memo->cap - 1;
    size_t i = (key * 0x9E3779B97F4A7C15u >> 20) & mask;

    while (memo->entries[i].key != 0 && memo->entries[i].key != key)
        i = (i + 1) & mask;
    return &memo->entries[i];
}

static void yield_memo_grow(struct yield_memo *memo)
{
    struct memo_entry *old = memo->entries;
    size_t old_cap = memo->cap;

    memo->cap = old_cap ? old_cap * 2 : 16;
    memo->entries = xalloc(memo->cap * sizeof(*memo->entries));
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i].key != 0)
            *find_entry(memo, old[i].key) = old[i];
    }
    free(old);
}

/* A narrower grant is an exception and stands. One that is wider, or only overlaps, was not meant for what the `none`
 * names. The same paths twice is no exception but a change of mind: the later one holds. */
static bool decide_yield(const struct atom *none, const struct atom *grant)
{
    if (!pattern_contains(atom_cover(none), grant->pattern))
        return false;
    if (pattern_contains(grant->pattern, none->pattern))
        return grant->rule > none->rule;
    return true;
}

bool yield_memo_yields(struct yield_memo *memo, uint32_t none, uint32_t grant)
{
    uint64_t key = ((uint64_t) none << 32 | grant) + 1;
    bool known, yields = false;

    pthread_mutex_lock(&memo->lock);
    struct memo_entry *entry = memo->cap ? find_entry(memo, key) : NULL;
    known = entry && entry->key == key;
    if (known)
        yields = entry->yields;
    pthread_mutex_unlock(&memo->lock);
    if (known)
        return yields;

    yields = decide_yield(&memo->atoms->items[none], &memo->atoms->items[grant]);

    pthread_mutex_lock(&memo->lock);
    if (memo->count < MEMO_MAX) {
        if (memo->count * 2 >= memo->cap)
            yield_memo_grow(memo);
        entry = find_entry(memo, key);
        memo->count += entry->key == 0;
        *entry = (struct memo_entry){ key, yields };
    }
    pthread_mutex_unlock(&memo->lock);
    return yields;
}

static int cmp_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}

static void find_grant(struct verdict *verdict, const struct atom_list *atoms, const uint32_t *matching, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct atom *atom = &atoms->items[matching[i]];
        if (atom->class > verdict->class) {
            verdict->class = atom->class;
            verdict->grant = NO_ATOM;
        }
        if (atom->class == verdict->class && atom->level != LEVEL_NONE &&
            (verdict->grant == NO_ATOM || atom->order > atoms->items[verdict->grant].order))
            verdict->grant = matching[i];
    }
}

void verdict_init(struct verdict *verdict, const struct atom_list *atoms, struct yield_memo *memo, const uint32_t *matching,
                  size_t count)
{
    *verdict = (struct verdict){ .class = ATOM_CLASS_NONE, .grant = NO_ATOM };
    size_t cap = 0;

    find_grant(verdict, atoms, matching, count);
    for (size_t i = 0; i < count; i++) {
        const struct atom *atom = &atoms->items[matching[i]];
        if (atom->class != verdict->class || atom->level != LEVEL_NONE)
            continue;
        if (verdict->grant != NO_ATOM && yield_memo_yields(memo, matching[i], verdict->grant))
            continue;
        vec_room(&verdict->hiders, &cap, verdict->hider_count);
        verdict->hiders[verdict->hider_count++] = matching[i];
    }
    if (verdict->hider_count > 1)
        qsort(verdict->hiders, verdict->hider_count, sizeof(*verdict->hiders), cmp_u32);
}

void verdict_done(struct verdict *verdict)
{
    free(verdict->hiders);
    *verdict = (struct verdict){ 0 };
}
