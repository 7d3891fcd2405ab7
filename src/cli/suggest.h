/* Which of the words that there are is meant by one that there is not: for "did you mean". */
#pragma once

/* The one with the fewest letters to insert, drop, replace or swap, if they are few enough to be a slip; otherwise NULL. `words` is ended by
 * NULL. */
const char *suggest_word(const char *word, const char *const *words);

/* "PROGRAM: unknown KIND 'WORD'; did you mean 'OTHER'? 'PROGRAM help' lists them", on standard error. */
void suggest_refuse(const char *program, const char *kind, const char *word, const char *const *words);
