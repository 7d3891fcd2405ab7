#include "policy/globset.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/*
 * The tokens of all globs are stored one after the other, and each glob is followed by an end slot. A state of the automaton is
 * a sorted set of slots: the tokens that may take the next unit. Reading a unit leads from one state to another. Units that no
 * token distinguishes share a column; a table finds the column of an ASCII unit, a binary search that of any other.
 *
 * A glob that begins with a star can always be at that star and at the token behind it. These slots belong to every state, so
 * they are stored in none: `floating` lists once what they add to each column. Thereby a thousand globs like `*-17-*` need an
 * automaton of a few thousand small states instead of states of a thousand slots each.
 *
 * A published state or transition never changes and lives as long as the globset. So matching takes no lock: a transition is
 * one acquire-load. Building a missing one takes the lock, under which states are found by their hash.
 */
struct slot {
    const struct glob *glob;
    const struct glob_token *token; /* NULL: the end of the glob */
    uint32_t target;
};

struct moves {
    struct moves *chain; /* next in the same hash bucket; guarded by globset.lock */
    uint64_t hash;
    uint32_t slot_count;
    uint32_t end_count;
    uint32_t *slots; /* sorted; stored behind `next` */
    uint32_t *ends;  /* the slots that are ends; stored behind `slots` */
    _Atomic(struct moves *) next[];
};

struct globset {
    struct budget *budget; /* borrowed */
    struct slot *slots;    /* owned */
    size_t slot_count, slot_cap;
    uint32_t *bounds; /* owned; column i holds the units from bounds[i] to bounds[i + 1] - 1 */
    size_t column_count, bound_cap;
    uint16_t ascii_column[128];
    uint32_t *floating;       /* owned; slots that floating globs reach, by column */
    uint32_t *floating_first; /* owned; those of column i begin at floating[floating_first[i]] */
    struct moves *first;
    struct moves **buckets; /* owned; guarded by lock */
    size_t bucket_count;
    pthread_mutex_t lock;
};

struct globset *globset_new(struct budget *budget)
{
    struct globset *set = xnew(struct globset);

    set->budget = budget;
    pthread_mutex_init(&set->lock, NULL);
    return set;
}

void globset_free(struct globset *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->bucket_count; i++) {
        for (struct moves *m = set->buckets[i], *chain; m; m = chain) {
            chain = m->chain;
            free(m);
        }
    }
    pthread_mutex_destroy(&set->lock);
    free(set->buckets);
    free(set->floating);
    free(set->floating_first);
    free(set->bounds);
    free(set->slots);
    free(set);
}

static void globset_add_slot(struct globset *set, struct slot slot)
{
    vec_room(&set->slots, &set->slot_cap, set->slot_count);
    set->slots[set->slot_count++] = slot;
}

static void globset_add_bound(struct globset *set, uint32_t unit)
{
    vec_room(&set->bounds, &set->bound_cap, set->column_count);
    set->bounds[set->column_count++] = unit;
}

void globset_add(struct globset *set, const struct glob *glob, uint32_t target)
{
    for (size_t i = 0; i < glob->token_count; i++) {
        const struct glob_token *token = &glob->tokens[i];

        globset_add_slot(set, (struct slot){ glob, token, target });
        if (token->kind == GLOB_UNIT) {
            globset_add_bound(set, token->unit);
            globset_add_bound(set, token->unit + 1);
        }
        for (uint32_t r = 0; token->kind == GLOB_SET && r < token->set_count; r++) {
            globset_add_bound(set, glob->ranges[token->set_first + r].first);
            globset_add_bound(set, glob->ranges[token->set_first + r].last + 1);
        }
    }
    globset_add_slot(set, (struct slot){ glob, NULL, target });
}

static size_t globset_find_column(const struct globset *set, uint32_t unit)
{
    size_t low = 0, high = set->column_count;

    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (set->bounds[mid] <= unit)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static size_t sort_unique(uint32_t *items, size_t count)
{
    size_t kept = 0;

    qsort(items, count, sizeof(*items), unit_cmp);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || items[kept - 1] != items[i])
            items[kept++] = items[i];
    }
    return kept;
}

/* A star may match nothing, so its slot is always accompanied by the next one. Two stars never follow each other. */
static size_t globset_add_closed(const struct globset *set, uint32_t *slots, size_t count, uint32_t slot)
{
    slots[count++] = slot;
    if (set->slots[slot].token && set->slots[slot].token->kind == GLOB_STAR)
        slots[count++] = slot + 1;
    return count;
}

static uint64_t hash_slots(const uint32_t *slots, size_t count)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ count;

    for (size_t i = 0; i < count; i++)
        h = (h ^ slots[i]) * 0xFF51AFD7ED558CCDu, h ^= h >> 32;
    return h;
}

/* Finds or makes the state for a sorted set of slots. Returns NULL if the budget is used up. [lock] */
static struct moves *moves_intern(struct globset *set, const uint32_t *slots, size_t count)
{
    uint64_t hash = hash_slots(slots, count);
    struct moves **bucket = &set->buckets[hash % set->bucket_count];
    size_t next_size = set->column_count * sizeof(struct moves *);
    size_t end_count = 0;

    for (struct moves *m = *bucket; m; m = m->chain) {
        if (m->hash == hash && m->slot_count == count && memcmp(m->slots, slots, count * sizeof(*slots)) == 0)
            return m;
    }
    for (size_t i = 0; i < count; i++)
        end_count += set->slots[slots[i]].token == NULL;
    size_t size = sizeof(struct moves) + next_size + (count + end_count) * sizeof(uint32_t);
    /* Every match starts at the first state, so it is made even without a budget. */
    if (!budget_reserve(set->budget, size) && set->first)
        return NULL;
    struct moves *m = xalloc(size);
    m->hash = hash;
    m->slots = (uint32_t *) (void *) ((char *) m->next + next_size);
    m->ends = m->slots + count;
    m->slot_count = (uint32_t) count;
    for (size_t i = 0; i < count; i++) {
        m->slots[i] = slots[i];
        if (!set->slots[slots[i]].token)
            m->ends[m->end_count++] = slots[i];
    }
    m->chain = *bucket;
    *bucket = m;
    return m;
}

/* Returns true if states leave out the glob that begins at `slot`. A glob whose second token accepts almost anything would be
 * listed in almost every column, so it is not left out. */
static bool slot_floats(const struct globset *set, size_t slot)
{
    const struct glob_token *first = set->slots[slot].token, *second = set->slots[slot + 1].token;

    return first->kind == GLOB_STAR && second &&
           (second->kind == GLOB_UNIT || (second->kind == GLOB_SET && !second->set_negated));
}

static bool begins_glob(const struct globset *set, size_t slot)
{
    return slot == 0 || !set->slots[slot - 1].token;
}

static void fill_floating(struct globset *set)
{
    size_t count = 0, cap = 0;

    set->floating_first = xgrow(NULL, set->column_count + 1, sizeof(*set->floating_first));
    for (size_t column = 0; column < set->column_count; column++) {
        set->floating_first[column] = (uint32_t) count;
        for (uint32_t i = 0; i < set->slot_count; i++) {
            if (!begins_glob(set, i) || !slot_floats(set, i) ||
                !glob_token_accepts(set->slots[i + 1].glob, set->slots[i + 1].token, set->bounds[column]))
                continue;
            for (int room = 0; room < 2; room++)
                vec_room(&set->floating, &cap, count + (size_t) room);
            count = globset_add_closed(set, set->floating, count, i + 2);
        }
    }
    set->floating_first[set->column_count] = (uint32_t) count;
}

void globset_seal(struct globset *set)
{
    autofree uint32_t *slots = xgrow(NULL, set->slot_count * 2 + 1, sizeof(*slots));
    size_t count = 0;

    globset_add_bound(set, 0);
    set->column_count = sort_unique(set->bounds, set->column_count);
    for (uint32_t unit = 0; unit < 128; unit++)
        set->ascii_column[unit] = (uint16_t) globset_find_column(set, unit);
    set->bucket_count = 256;
    set->buckets = xalloc(set->bucket_count * sizeof(*set->buckets));
    fill_floating(set);
    for (uint32_t i = 0; i < set->slot_count; i++) {
        if (begins_glob(set, i) && !slot_floats(set, i))
            count = globset_add_closed(set, slots, count, i);
    }
    set->first = moves_intern(set, slots, sort_unique(slots, count));
}

static size_t floating_count(const struct globset *set, size_t column)
{
    return set->floating_first[column + 1] - set->floating_first[column];
}

/* The most slots that slots_advance() may write. */
static size_t advance_room(const struct globset *set, size_t count, size_t column)
{
    return count * 2 + floating_count(set, column) + 1;
}

/* Writes the slots that a unit of the column reaches from `from`. Returns their number. */
static size_t slots_advance(const struct globset *set, const uint32_t *from, size_t count, size_t column, uint32_t *to)
{
    uint32_t unit = set->bounds[column];
    size_t reached = floating_count(set, column);

    if (reached)
        memcpy(to, set->floating + set->floating_first[column], reached * sizeof(*to));
    for (size_t i = 0; i < count; i++) {
        const struct slot *slot = &set->slots[from[i]];
        if (!slot->token || !glob_token_accepts(slot->glob, slot->token, unit))
            continue;
        reached = globset_add_closed(set, to, reached, slot->token->kind == GLOB_STAR ? from[i] : from[i] + 1);
    }
    return sort_unique(to, reached);
}

static struct moves *globset_build_move(struct globset *set, struct moves *from, size_t column)
{
    autofree uint32_t *slots = xgrow(NULL, advance_room(set, from->slot_count, column), sizeof(*slots));
    size_t count = slots_advance(set, from->slots, from->slot_count, column, slots);
    struct moves *to;

    pthread_mutex_lock(&set->lock);
    to = moves_intern(set, slots, count);
    pthread_mutex_unlock(&set->lock);
    if (to)
        atomic_store_explicit(&from->next[column], to, memory_order_release);
    return to;
}

static size_t globset_next_column(const struct globset *set, const char *name, size_t len, size_t *ret_column)
{
    uint32_t unit = (unsigned char) name[0];

    if (unit < 128) {
        *ret_column = set->ascii_column[unit];
        return 1;
    }
    size_t n = unit_next(name, len, &unit);
    *ret_column = globset_find_column(set, unit);
    return n;
}

/* Without a budget: matches the rest of the name and stores nothing. */
static void globset_match_unkept(struct globset *set, const struct moves *from, const char *name, size_t len,
                                 globset_match_fn on_match, void *cookie)
{
    autofree uint32_t *now = xgrow(NULL, from->slot_count, sizeof(*now));
    size_t count = from->slot_count;

    if (count)
        memcpy(now, from->slots, count * sizeof(*now));
    for (size_t i = 0; i < len;) {
        size_t column;
        i += globset_next_column(set, name + i, len - i, &column);
        uint32_t *next = xgrow(NULL, advance_room(set, count, column), sizeof(*next));
        count = slots_advance(set, now, count, column, next);
        free(now);
        now = next;
    }
    for (size_t i = 0; i < count; i++) {
        if (!set->slots[now[i]].token)
            on_match(set->slots[now[i]].target, cookie);
    }
}

void globset_match(struct globset *set, const char *name, size_t len, globset_match_fn on_match, void *cookie)
{
    bool any_floats = set->floating_first[set->column_count] > 0;
    struct moves *at = set->first;

    for (size_t i = 0; i < len && (at->slot_count > 0 || any_floats);) {
        size_t column;
        size_t n = globset_next_column(set, name + i, len - i, &column);
        struct moves *next = atomic_load_explicit(&at->next[column], memory_order_acquire);

        if (!next)
            next = globset_build_move(set, at, column);
        if (!next) {
            globset_match_unkept(set, at, name + i, len - i, on_match, cookie);
            return;
        }
        at = next;
        i += n;
    }
    for (uint32_t i = 0; i < at->end_count; i++)
        on_match(set->slots[at->ends[i]].target, cookie);
}
