#include "cli/suggest.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/output.h"

#define WORD_MAX 32 /* all known words are shorter */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A swap of two neighbours counts as one typing error. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[WORD_MAX + 1][WORD_MAX + 1], a_len = strlen(a), b_len = strlen(b);

    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return WORD_MAX;
    for (size_t i = 0; i <= a_len; i++) {
        for (size_t j = 0; j <= b_len; j++) {
            if (i == 0 || j == 0) {
                rows[i][j] = i + j;
                continue;
            }
            rows[i][j] = least(least(rows[i - 1][j], rows[i][j - 1]) + 1, rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                rows[i][j] = least(rows[i][j], rows[i - 2][j - 2] + 1);
        }
    }
    return rows[a_len][b_len];
}

const char *suggest_word(const char *word, const char *const *words)
{
    size_t best = strlen(word) > 4 ? 3 : 2; /* the first distance that is too large */
    const char *found = NULL;

    for (; *words; words++) {
        size_t away = distance(word, *words);

        if (away < best && away < strlen(*words)) {
            best = away;
            found = *words;
        }
    }
    return found;
}

void suggest_refuse(const char *program, const char *kind, const char *word, const char *const *words)
{
    const char *meant = suggest_word(word, words);

    fprintf(stderr, "%s: unknown %s '", program, kind);
    output_escaped(stderr, word);
    fprintf(stderr, "'; %s%s%s'%s help' lists them\n", meant ? "did you mean '" : "", meant ? meant : "", meant ? "'? " : "",
            program);
}
