/*
 * One component of a pattern: `*.py`, `id_?`, `[a-z]*`, `README.md`.
 *
 * A glob works on units. A unit is one character of valid UTF-8, or one byte that belongs to no valid character. So `?` matches
 * one letter whatever its encoding, and rules can also be about names that are not UTF-8. `*` and `?` match leading dots. A
 * component never contains a slash, and names given to glob_matches() are never empty.
 *
 * A glob is immutable once parsed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A stray byte becomes a unit above all code points. */
#define UNIT_STRAY_BYTE 0x110000u
#define UNIT_LIMIT (UNIT_STRAY_BYTE + 0x100u)

/* Decodes the first unit of bytes[0..len), len > 0. Returns its length. */
size_t unit_next(const char *bytes, size_t len, uint32_t *ret_unit);

/* Compares two uint32_t, for qsort(). */
static inline int unit_cmp(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}

struct unit_range {
    uint32_t first;
    uint32_t last; /* inclusive */
};

enum glob_token_kind {
    GLOB_UNIT, /* exactly `unit` */
    GLOB_ONE,  /* `?` */
    GLOB_SET,  /* `[...]` */
    GLOB_STAR, /* `*`; never two in a row */
};

struct glob_token {
    enum glob_token_kind kind;
    uint32_t unit;
    uint32_t set_first; /* GLOB_SET: its ranges in glob.ranges */
    uint32_t set_count;
    bool set_negated;
};

/* How the trie finds a component: by hash, by walking the name from the left or the right, or by an automaton. */
enum glob_shape {
    GLOB_LITERAL, /* `name` */
    GLOB_ANY,     /* `*` */
    GLOB_PREFIX,  /* `name*` */
    GLOB_SUFFIX,  /* `*name` */
    GLOB_OTHER,
};

struct glob {
    enum glob_shape shape;
    char *text; /* owned; the literal bytes of LITERAL, PREFIX and SUFFIX, empty otherwise */
    size_t text_len;
    struct glob_token *tokens; /* owned */
    size_t token_count;
    struct unit_range *ranges; /* owned */
    size_t range_count;
    size_t literal_units; /* units that are no wildcards */
};

/* Parses `*`, `?`, `[...]` and `\`. Fails on an unclosed or malformed class and on a trailing backslash. */
int glob_parse(const char *bytes, size_t len, struct glob *ret_glob, struct err *err);

/* Every byte is literal, wildcard characters included. */
void glob_init_literal(struct glob *glob, const char *bytes, size_t len);

void glob_done(struct glob *glob);

bool glob_matches(const struct glob *glob, const char *name, size_t len);
bool glob_token_accepts(const struct glob *glob, const struct glob_token *token, uint32_t unit);
bool glob_equals(const struct glob *a, const struct glob *b);
