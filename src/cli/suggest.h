/* Finds the word that a mistyped word probably means, for "did you mean". */
#pragma once

/* Returns the word that needs the fewest letters inserted, dropped, replaced or swapped, or NULL if that are too many for a typing error. `words`
 * ends with NULL. */
const char *suggest_word(const char *word, const char *const *words);

/* Prints "PROGRAM: unknown KIND 'WORD'; did you mean 'OTHER'? 'PROGRAM help' lists them" on standard error. */
void suggest_refuse(const char *program, const char *kind, const char *word, const char *const *words);
