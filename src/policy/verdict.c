#include "policy/verdict.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash_table.h"
#include "base/mem.h"
#include "policy/contain.h"

/* When it has this many answers it stores no more. */
#define MEMO_MAX 65536

struct yield_answer {
    struct hash_link link; /* the hash is unique to the pair, see hash_pair() */
    bool yields;
};

struct yield_memo {
    const struct atom_list *atoms; /* borrowed */
    pthread_mutex_t lock;
    struct hash_table answers; /* of owned struct yield_answer; guarded by lock */
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
    for (struct hash_link *link = hash_table_next(&memo->answers, NULL), *next; link; link = next) {
        next = hash_table_next(&memo->answers, link);
        free(hash_link_in(link, struct yield_answer, link));
    }
    hash_table_done(&memo->answers);
    pthread_mutex_destroy(&memo->lock);
    free(memo);
}

/* Both steps can be inverted, so different pairs have different hashes. */
static uint64_t hash_pair(uint32_t none, uint32_t grant)
{
    uint64_t hash = ((uint64_t) none << 32 | grant) * 0x9E3779B97F4A7C15u;

    return hash ^ hash >> 32;
}

/* A narrower grant is an exception and wins. A wider or merely overlapping one was not meant for what the `none` names. Of two
 * rules for the same paths the later one holds. */
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
    uint64_t hash = hash_pair(none, grant);
    struct yield_answer *answer;

    pthread_mutex_lock(&memo->lock);
    const struct hash_link *known = hash_table_first(&memo->answers, hash);
    pthread_mutex_unlock(&memo->lock);
    if (known) /* an answer neither changes nor goes */
        return hash_link_in(known, const struct yield_answer, link)->yields;

    answer = xnew(struct yield_answer);
    bool yields = answer->yields = decide_yield(&memo->atoms->items[none], &memo->atoms->items[grant]);

    pthread_mutex_lock(&memo->lock);
    if (memo->answers.count < MEMO_MAX && !hash_table_first(&memo->answers, hash)) {
        hash_table_add(&memo->answers, &answer->link, hash);
        answer = NULL;
    }
    pthread_mutex_unlock(&memo->lock);
    free(answer);
    return yields;
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
        qsort(verdict->hiders, verdict->hider_count, sizeof(*verdict->hiders), unit_cmp);
}

void verdict_done(struct verdict *verdict)
{
    free(verdict->hiders);
    *verdict = (struct verdict){ 0 };
}
