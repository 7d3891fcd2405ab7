/*
 * What a step costs: with 10 to 10,000 rules, at depth 3 and 30, for rules a hash or an affix walk can find and for arbitrary
 * globs; cold and warm. And what compiling costs in time and memory.
 *
 * Variants are measured in turns, round by round, and compared as ratios of medians within one run, so that a noisy machine
 * disturbs all alike. Before each turn the variant runs once untimed: the others have filled the caches with theirs.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "policy/ruleset.h"

#define NAMES 1024
#define ROUNDS 41
#define COMPILES 5

static const int counts[] = { 1, 10, 100, 1000, 10000 };
static const int depths[] = { 3, 30 };

enum kind { AFFIX, GLOB };

static const char *const kind_names[] = { "literal, prefix, suffix", "arbitrary globs" };

struct variant {
    enum kind kind;
    int rule_count;
    int depth;
    struct ruleset *rules;
    struct match_state *parent; /* the place whose children are looked up */
    double step_ns[ROUNDS];
    double compile_ms;
    double cold_ns;
    size_t size_bytes;
};

static double now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double) ts.tv_sec * 1e9 + (double) ts.tv_nsec;
}

/* Rules as people write them, of many shapes; the i-th of them the same whatever the count. */
static char *dup_pattern(enum kind kind, int i)
{
    if (kind == GLOB) {
        switch (i % 5) {
        case 0:
            return xprintf("**/part%d*v?.[ch]", i);
        case 1:
            return xprintf("**/*-%d-*", i);
        case 2:
            return xprintf("/src/**/mod?%d*.py", i);
        case 3:
            return xprintf("**/[a-f]%d*.tmp", i);
        default:
            return xprintf("**/x*%d*y", i);
        }
    }
    switch (i % 5) {
    case 0:
        return xprintf("/src/module%d/**", i);
    case 1:
        return xprintf("**/*.ext%d", i);
    case 2:
        return xprintf("**/prefix%d*", i);
    case 3:
        return xprintf("**/name%d/**", i);
    default:
        return xprintf("/lib/*/pkg%d/*.o", i);
    }
}

/* Names of which a part is named by rules, in any of the shapes. */
static void fill_names(char names[NAMES][64])
{
    static const char *const forms[] = { "file%d.c", "a.ext%d",    "prefix%d_x", "name%d", "module%d",     "part%dxv1.c",
                                         "a-%d-b",   "modx%d_.py", "b%d_t.tmp",  "x_%d_y", "README_%d.md", "index%d.ts" };

    for (int i = 0; i < NAMES; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(names[i], sizeof(names[i]), forms[i % (int) ARRAY_LEN(forms)], i * 7 % 10000);
#pragma GCC diagnostic pop
    }
}

static int cmp_double(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), cmp_double);
    return values[count / 2];
}

static void build(struct variant *v, char names[NAMES][64])
{
    struct rule_list list = RULE_LIST_EMPTY;

    rule_list_add_short(&list, "**/*=read", NULL);
    for (int i = 1; i < v->rule_count; i++) {
        autofree char *pattern = dup_pattern(v->kind, i);
        if (rule_list_add(&list, pattern, strlen(pattern), RULE_GLOB, i % 3 ? LEVEL_NONE : LEVEL_WRITE, 0, NULL) < 0)
            abort();
    }
    double times[COMPILES], start;
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < COMPILES; i++) {
        ruleset_unref(v->rules);
        start = now_ns();
        if (ruleset_new(&list, NULL, &v->rules, NULL) < 0)
            abort();
        times[i] = (now_ns() - start) / 1e6;
    }
    v->compile_ms = median(times, COMPILES);
    rule_list_done(&list);

    v->parent = match_state_ref(ruleset_root(v->rules));
    for (int i = 1; i < v->depth; i++) {
        char name[16];
        snprintf(name, sizeof(name), i == 1 ? "src" : "dir%d", i);
        struct match_state *next = ruleset_step(v->rules, v->parent, name, strlen(name));
        match_state_unref(v->parent);
        v->parent = next;
    }
    start = now_ns();
    for (int i = 0; i < NAMES; i++)
        match_state_unref(ruleset_step(v->rules, v->parent, names[i], strlen(names[i])));
    v->cold_ns = (now_ns() - start) / NAMES;
    v->size_bytes = mallinfo2().uordblks + mallinfo2().hblkhd - before;
}

static double step_round(const struct variant *v, char names[NAMES][64], const size_t *lens)
{
    unsigned levels = 0;
    double start = now_ns();

    for (int i = 0; i < NAMES; i++) {
        struct match_state *match = ruleset_step(v->rules, v->parent, names[i], lens[i]);
        levels += match_state_level(match);
        match_state_unref(match);
    }
    double ns = (now_ns() - start) / NAMES;
    if (levels == 0)
        abort(); /* `**` = read matches them all; also keeps the loop from being optimised away */
    return ns;
}

struct verdict_line {
    const char *what, *unit;
    double value, target;
};

static int print_verdict(const struct verdict_line *line)
{
    printf("  %-64s %8.2f %-2s target <= %-6.4g %s\n", line->what, line->value, line->unit, line->target,
           line->value <= line->target ? "ok" : "MISSED");
    return line->value > line->target;
}

static const struct variant *find(const struct variant *all, size_t n, enum kind kind, int count, int depth)
{
    for (size_t i = 0; i < n; i++) {
        if (all[i].kind == kind && all[i].rule_count == count && all[i].depth == depth)
            return &all[i];
    }
    abort();
}

/* After median(), the middle of the sorted rounds. */
static double step_of(const struct variant *v)
{
    return v->step_ns[ROUNDS / 2];
}

static void write_json(const char *path, const struct variant *all, size_t n, const struct verdict_line *lines,
                       size_t line_count)
{
    FILE *f = fopen(path, "we");

    if (!f) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    fprintf(f, "{\"benchmark\": \"policy\", \"unit\": \"ns per step\", \"variants\": [");
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "%s\n  {\"kind\": \"%s\", \"rules\": %d, \"depth\": %d, \"step_ns\": %.1f, \"cold_ns\": %.1f, "
                "\"compile_ms\": %.3f, \"size_bytes\": %zu}",
                i ? "," : "", kind_names[all[i].kind], all[i].rule_count, all[i].depth, step_of(&all[i]), all[i].cold_ns,
                all[i].compile_ms, all[i].size_bytes);
    fprintf(f, "\n], \"rows\": [");
    for (size_t i = 0; i < line_count; i++)
        fprintf(f, "%s\n  {\"what\": \"%s\", \"value\": %.3f, \"unit\": \"%s\", \"target\": %g, \"verdict\": \"%s\"}",
                i ? "," : "", lines[i].what, lines[i].value, lines[i].unit, lines[i].target,
                lines[i].value <= lines[i].target ? "pass" : "MISS");
    fprintf(f, "\n]}\n");
    fclose(f);
}

int main(int argc, char **argv)
{
    static char names[NAMES][64];
    static size_t lens[NAMES];
    static struct variant all[2 * ARRAY_LEN(counts) * ARRAY_LEN(depths)];
    size_t n = 0;

    fill_names(names);
    for (int i = 0; i < NAMES; i++)
        lens[i] = strlen(names[i]);
    for (int kind = AFFIX; kind <= GLOB; kind++) {
        for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
            for (size_t d = 0; d < ARRAY_LEN(depths); d++) {
                all[n] = (struct variant){ .kind = (enum kind) kind, .rule_count = counts[c], .depth = depths[d] };
                build(&all[n++], names);
            }
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < n; i++) {
            step_round(&all[i], names, lens);
            all[i].step_ns[round] = step_round(&all[i], names, lens);
        }
    }

    printf("%-24s %6s %6s %10s %10s %12s %10s\n", "rules of", "count", "depth", "step ns", "cold ns", "compile ms", "size KB");
    for (size_t i = 0; i < n; i++) {
        double step = median(all[i].step_ns, ROUNDS);
        printf("%-24s %6d %6d %10.1f %10.1f %12.3f %10zu\n", kind_names[all[i].kind], all[i].rule_count, all[i].depth, step,
               all[i].cold_ns, all[i].compile_ms, all[i].size_bytes / 1024);
    }

    const struct variant *a10 = find(all, n, AFFIX, 10, 3), *a1000 = find(all, n, AFFIX, 1000, 3);
    const struct variant *g10 = find(all, n, GLOB, 10, 3), *g1000 = find(all, n, GLOB, 1000, 3);
    const struct verdict_line lines[] = {
        { "1,000 literal, prefix, suffix rules against 10", "x", step_of(a1000) / step_of(a10), 1.5 },
        { "1,000 arbitrary globs against 10, warm", "x", step_of(g1000) / step_of(g10), 3 },
        { "depth 30 against depth 3, 1,000 literal, prefix, suffix rules", "x",
          step_of(find(all, n, AFFIX, 1000, 30)) / step_of(a1000), 1.15 },
        { "depth 30 against depth 3, 1,000 arbitrary globs", "x", step_of(find(all, n, GLOB, 1000, 30)) / step_of(g1000),
          1.15 },
        { "1,000 rules, caches included", "MB", (double) a1000->size_bytes / 1e6, 4 },
        { "1,000 arbitrary globs, caches included", "MB", (double) g1000->size_bytes / 1e6, 4 },
        { "compiling 1,000 rules", "ms", a1000->compile_ms, 50 },
        { "compiling 1,000 arbitrary globs", "ms", g1000->compile_ms, 50 },
    };
    int missed = 0;
    printf("\n");
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        missed += print_verdict(&lines[i]);
    if (argc == 3 && strcmp(argv[1], "--json") == 0)
        write_json(argv[2], all, n, lines, ARRAY_LEN(lines));
    for (size_t i = 0; i < n; i++) {
        match_state_unref(all[i].parent);
        ruleset_unref(all[i].rules);
    }
    return missed ? EXIT_FAILURE : EXIT_SUCCESS;
}
