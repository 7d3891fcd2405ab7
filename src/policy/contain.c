#include "policy/contain.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/*
 * How containment is decided.
 *
 * A pattern becomes a small program over units: `/` before each component, then its tokens. `**` becomes a loop over "slash,
 * one unit, any units". Each thread of a program waits at an instruction for the next unit.
 *
 * `inner` is contained in `outer` if no word takes inner to its end but not outer. The search follows inner one thread at a
 * time, and outer as the set of all its threads; it explores each pair (thread, set) once. If inner can end in a pair whose set
 * cannot, there is a counterexample. Overlap is the same search over pairs of single threads.
 *
 * The alphabet is unlimited, but units that no token of either pattern distinguishes behave alike, so one representative of
 * each such group is enough. The search follows only groups that inner's instruction accepts, so a literal costs one step.
 */

enum op_kind {
    OP_SLASH,
    OP_TOKEN, /* one unit that the token accepts */
    OP_STAR,  /* any number of units, then continues at `next` */
    OP_DEPTH, /* continues at the next instruction (into the loop) and at `next` (past it) */
    OP_END,
};

struct op {
    enum op_kind kind;
    uint32_t next;
    const struct glob *glob;        /* borrowed from the pattern */
    const struct glob_token *token; /* borrowed from the pattern; OP_TOKEN */
};

struct program {
    struct op *ops; /* owned */
    uint32_t count;
};

/* Larger than any rule a person writes. A pair that exceeds them counts as undecided. */
#define PROGRAM_OPS_MAX 1024
#define SETS_MAX 1000
#define WORK_MAX 4000000

static const struct glob_token any_one = { .kind = GLOB_ONE };

static void program_emit(struct program *p, struct op op)
{
    p->ops[p->count++] = op;
}

static bool program_init(struct program *p, const struct pattern *pattern)
{
    size_t size = 1;

    for (size_t i = 0; i < pattern->count; i++)
        size += pattern->parts[i].any_depth ? 4 : 2 + pattern->parts[i].glob.token_count;
    *p = (struct program){ 0 };
    if (size > PROGRAM_OPS_MAX)
        return false;
    p->ops = xgrow(NULL, size, sizeof(*p->ops));
    for (size_t i = 0; i < pattern->count; i++) {
        const struct glob *glob = &pattern->parts[i].glob;
        uint32_t head = p->count;

        if (pattern->parts[i].any_depth) {
            program_emit(p, (struct op){ .kind = OP_DEPTH, .next = head + 4 });
            program_emit(p, (struct op){ .kind = OP_SLASH, .next = head + 2 });
            program_emit(p, (struct op){ .kind = OP_TOKEN, .next = head + 3, .token = &any_one });
            program_emit(p, (struct op){ .kind = OP_STAR, .next = head });
            continue;
        }
        program_emit(p, (struct op){ .kind = OP_SLASH, .next = p->count + 1 });
        if (glob->shape == GLOB_ANY) /* a name is never empty, so `*` is "one, then any" */
            program_emit(p, (struct op){ .kind = OP_TOKEN, .next = p->count + 1, .glob = glob, .token = &any_one });
        for (size_t t = 0; t < glob->token_count; t++) {
            enum op_kind kind = glob->tokens[t].kind == GLOB_STAR ? OP_STAR : OP_TOKEN;
            program_emit(p, (struct op){ .kind = kind, .next = p->count + 1, .glob = glob, .token = &glob->tokens[t] });
        }
    }
    program_emit(p, (struct op){ .kind = OP_END });
    return true;
}

static void program_done(struct program *p)
{
    free(p->ops);
}

/* The unit of a component separator: no name contains a slash. */
#define SEPARATOR ((uint32_t) '/')

static bool op_accepts(const struct op *op, uint32_t unit)
{
    switch (op->kind) {
    case OP_SLASH:
        return unit == SEPARATOR;
    case OP_TOKEN:
        return unit != SEPARATOR && glob_token_accepts(op->glob, op->token, unit);
    case OP_STAR:
        return unit != SEPARATOR;
    case OP_DEPTH:
    case OP_END:
        break;
    }
    return false;
}

/* Representatives of the groups of units, sorted: the units at which some token begins or ceases to accept. */
struct alphabet {
    uint32_t *units; /* owned */
    size_t count, cap;
};

static void alphabet_add(struct alphabet *a, uint32_t unit)
{
    if (unit >= UNIT_LIMIT)
        return;
    vec_room(&a->units, &a->cap, a->count);
    a->units[a->count++] = unit;
}

static void alphabet_add_program(struct alphabet *a, const struct program *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const struct op *op = &p->ops[i];
        if (op->kind != OP_TOKEN)
            continue;
        if (op->token->kind == GLOB_UNIT) {
            alphabet_add(a, op->token->unit);
            alphabet_add(a, op->token->unit + 1);
        }
        for (uint32_t r = 0; op->token->kind == GLOB_SET && r < op->token->set_count; r++) {
            const struct unit_range *range = &op->glob->ranges[op->token->set_first + r];
            alphabet_add(a, range->first);
            alphabet_add(a, range->last + 1);
        }
    }
}

static void alphabet_init(struct alphabet *a, const struct program *p, const struct program *q)
{
    size_t kept = 0;

    *a = (struct alphabet){ 0 };
    alphabet_add(a, 1); /* NUL is in no name */
    alphabet_add(a, SEPARATOR);
    alphabet_add(a, SEPARATOR + 1);
    alphabet_add_program(a, p);
    alphabet_add_program(a, q);
    qsort(a->units, a->count, sizeof(*a->units), unit_cmp);
    for (size_t i = 0; i < a->count; i++) {
        if (kept == 0 || a->units[kept - 1] != a->units[i])
            a->units[kept++] = a->units[i];
    }
    a->count = kept;
}

/* A set of instructions of one program. */
struct thread_set {
    uint64_t bits[PROGRAM_OPS_MAX / 64];
};

static void set_add_closed(const struct program *p, struct thread_set *set, uint32_t at)
{
    while (!(set->bits[at / 64] & UINT64_C(1) << at % 64)) {
        const struct op *op = &p->ops[at];

        set->bits[at / 64] |= UINT64_C(1) << at % 64;
        if (op->kind == OP_DEPTH)
            set_add_closed(p, set, at + 1); /* recurses once: a slash follows */
        else if (op->kind != OP_STAR)
            return;
        at = op->next;
    }
}

static void set_step(const struct program *p, const struct thread_set *from, uint32_t unit, struct thread_set *to)
{
    memset(to, 0, sizeof(*to));
    for (uint32_t word = 0; word * 64 < p->count; word++) {
        for (uint64_t bits = from->bits[word]; bits; bits &= bits - 1) {
            uint32_t at = word * 64 + (uint32_t) __builtin_ctzll(bits);
            const struct op *op = &p->ops[at];
            if (op_accepts(op, unit))
                set_add_closed(p, to, op->kind == OP_STAR ? at : op->next);
        }
    }
}

/* A set of outer's threads that the search has reached. */
struct known_set {
    struct thread_set threads;
    struct thread_set met; /* threads of inner that were paired with it */
    uint32_t *next;        /* owned; by letter of the alphabet: the set that follows, or UNKNOWN */
};

#define UNKNOWN UINT32_MAX

struct set_pair {
    uint32_t thread; /* of inner */
    uint32_t set;    /* index into search.sets */
};

struct containment_search {
    const struct program *inner;
    const struct program *outer;
    const struct alphabet *alphabet;
    struct known_set *sets; /* owned; distinct */
    size_t set_count, set_cap;
    struct set_pair *todo; /* owned */
    size_t todo_count, todo_cap;
    uint64_t work;
};

static uint32_t search_set(struct containment_search *s, const struct thread_set *set)
{
    size_t size = (s->outer->count + 63) / 64 * sizeof(uint64_t);

    s->work += s->set_count;
    for (size_t i = 0; i < s->set_count; i++) {
        if (memcmp(&s->sets[i].threads, set, size) == 0)
            return (uint32_t) i;
    }
    vec_room(&s->sets, &s->set_cap, s->set_count);
    struct known_set *known = &s->sets[s->set_count];
    known->threads = *set;
    memset(&known->met, 0, sizeof(known->met));
    known->next = xgrow(NULL, s->alphabet->count, sizeof(*known->next));
    for (size_t i = 0; i < s->alphabet->count; i++)
        known->next[i] = UNKNOWN;
    return (uint32_t) s->set_count++;
}

static uint32_t search_next_set(struct containment_search *s, uint32_t set, size_t letter)
{
    struct thread_set next;

    if (s->sets[set].next[letter] != UNKNOWN)
        return s->sets[set].next[letter];
    set_step(s->outer, &s->sets[set].threads, s->alphabet->units[letter], &next);
    s->work += s->outer->count;
    uint32_t to = search_set(s, &next);
    s->sets[set].next[letter] = to;
    return to;
}

/* Adds a pair and those that it reaches without a unit. Returns false on a counterexample. */
static bool search_add(struct containment_search *s, uint32_t thread, uint32_t set)
{
    for (;;) {
        const struct op *op = &s->inner->ops[thread];
        uint64_t *met = &s->sets[set].met.bits[thread / 64];

        if (*met >> thread % 64 & 1)
            return true;
        *met |= UINT64_C(1) << thread % 64;
        if (op->kind == OP_END)
            return s->sets[set].threads.bits[(s->outer->count - 1) / 64] >> (s->outer->count - 1) % 64 & 1;
        vec_room(&s->todo, &s->todo_cap, s->todo_count);
        s->todo[s->todo_count++] = (struct set_pair){ thread, set };
        if (op->kind == OP_DEPTH && !search_add(s, thread + 1, set))
            return false;
        if (op->kind != OP_DEPTH && op->kind != OP_STAR)
            return true;
        thread = op->next;
    }
}

static bool search_explore(struct containment_search *s, struct set_pair pair)
{
    const struct op *op = &s->inner->ops[pair.thread];
    uint32_t to = op->kind == OP_STAR ? pair.thread : op->next;

    for (size_t letter = 0; letter < s->alphabet->count; letter++) {
        s->work++;
        if (op_accepts(op, s->alphabet->units[letter]) && !search_add(s, to, search_next_set(s, pair.set, letter)))
            return false;
    }
    return true;
}

static bool search_contains(struct containment_search *s)
{
    struct thread_set first;

    memset(&first, 0, sizeof(first));
    set_add_closed(s->outer, &first, 0);
    if (!search_add(s, 0, search_set(s, &first)))
        return false;
    while (s->todo_count > 0) {
        if (s->set_count > SETS_MAX || s->work > WORK_MAX)
            return false;
        if (!search_explore(s, s->todo[--s->todo_count]))
            return false;
    }
    return true;
}

bool pattern_contains(const struct pattern *outer, const struct pattern *inner)
{
    struct program p = { 0 }, q = { 0 };
    struct alphabet alphabet = { 0 };
    bool contains = false;

    if (pattern_equals(outer, inner))
        return true;
    if (program_init(&p, inner) && program_init(&q, outer)) {
        struct containment_search s = { .inner = &p, .outer = &q, .alphabet = &alphabet };
        alphabet_init(&alphabet, &p, &q);
        contains = search_contains(&s);
        for (size_t i = 0; i < s.set_count; i++)
            free(s.sets[i].next);
        free(s.sets);
        free(s.todo);
    }
    free(alphabet.units);
    program_done(&p);
    program_done(&q);
    return contains;
}

/* Pairs of instructions (x of p, y of q) that the same word reaches. */
struct overlap_search {
    const struct program *p, *q;
    uint8_t *visited;    /* owned */
    uint32_t (*todo)[2]; /* owned */
    size_t todo_count, todo_cap;
};

static void overlap_add_pair(struct overlap_search *m, uint32_t x, uint32_t y)
{
    uint8_t *visited = &m->visited[(size_t) x * m->q->count + y];

    if (*visited)
        return;
    *visited = 1;
    vec_room(&m->todo, &m->todo_cap, m->todo_count);
    m->todo[m->todo_count][0] = x;
    m->todo[m->todo_count++][1] = y;
}

/* Adds the pairs that need no unit: past a star, into and past a `**`. */
static void overlap_free_moves(struct overlap_search *m, uint32_t x, uint32_t y)
{
    const struct op *a = &m->p->ops[x], *b = &m->q->ops[y];

    if (a->kind == OP_DEPTH || a->kind == OP_STAR)
        overlap_add_pair(m, a->next, y);
    if (a->kind == OP_DEPTH)
        overlap_add_pair(m, x + 1, y);
    if (b->kind == OP_DEPTH || b->kind == OP_STAR)
        overlap_add_pair(m, x, b->next);
    if (b->kind == OP_DEPTH)
        overlap_add_pair(m, x, y + 1);
}

static void overlap_on_unit(struct overlap_search *m, const struct alphabet *alphabet, uint32_t x, uint32_t y)
{
    const struct op *a = &m->p->ops[x], *b = &m->q->ops[y];

    for (size_t i = 0; i < alphabet->count; i++) {
        uint32_t unit = alphabet->units[i];
        if (op_accepts(a, unit) && op_accepts(b, unit)) {
            overlap_add_pair(m, a->kind == OP_STAR ? x : a->next, b->kind == OP_STAR ? y : b->next);
            return; /* the target does not depend on the unit */
        }
    }
}

static bool search_overlap(const struct program *p, const struct program *q, const struct alphabet *alphabet)
{
    struct overlap_search m = { .p = p, .q = q, .visited = xalloc((size_t) p->count * q->count) };
    bool found = false;

    overlap_add_pair(&m, 0, 0);
    while (m.todo_count > 0 && !found) {
        uint32_t x = m.todo[m.todo_count - 1][0], y = m.todo[m.todo_count - 1][1];
        m.todo_count--;
        found = p->ops[x].kind == OP_END && q->ops[y].kind == OP_END;
        overlap_free_moves(&m, x, y);
        overlap_on_unit(&m, alphabet, x, y);
    }
    free(m.visited);
    free(m.todo);
    return found;
}

bool pattern_overlaps(const struct pattern *a, const struct pattern *b)
{
    struct program p = { 0 }, q = { 0 };
    struct alphabet alphabet = { 0 };
    bool overlaps = true;

    if (program_init(&p, a) && program_init(&q, b)) {
        alphabet_init(&alphabet, &p, &q);
        overlaps = search_overlap(&p, &q, &alphabet);
    }
    free(alphabet.units);
    program_done(&p);
    program_done(&q);
    return overlaps;
}
