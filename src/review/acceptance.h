/*
 * Decides which changes an approval may apply: the sandbox's owner allows and denies them by path and by extension.
 *
 * A path is matched from the root of the project. A glob is a path of segments: `**` matches any number of segments, including
 * none; in the others `*`, `?`, `[...]` and `\` work as in policies. A name alone matches only itself. A leading `/` or `./`
 * and a trailing slash are ignored. A malformed glob matches nothing. An extension is the text after the last dot of a name;
 * case is ignored, and it is given with or without the dot.
 *
 * A path meets criteria if a glob matches, or there are no globs, and if its extension is listed, or there are no extensions.
 * Criteria with neither allow everything, and deny nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

#define ACCEPTANCE_GLOBS_MAX 1000 /* of each list */

enum acceptance_status {
    ACCEPTANCE_ACCEPTED,
    ACCEPTANCE_DENIED,
    ACCEPTANCE_IGNORED,
    ACCEPTANCE_BINARY_IGNORED,
};

struct acceptance_criteria {
    struct acceptance_glob *globs; /* owned */
    size_t glob_count, glob_cap;
    char **extensions; /* owned, like its elements: lower case, with the dot */
    size_t extension_count, extension_cap;
};

/* Zeroed: everything is accepted. */
struct acceptance {
    struct acceptance_criteria allow, deny;
    bool ignores_binary;
};

struct acceptance_verdict {
    enum acceptance_status status;
    const char *reason; /* a literal; NULL when accepted without a rule */
    const char *rule;   /* the glob or extension that decided, as given; NULL: none. Lives as long as the acceptance */
};

/* Returns 1 if the glob is malformed; it is added, but matches nothing. -E2BIG: there are too many. */
int acceptance_add_glob(struct acceptance_criteria *criteria, const char *glob);
int acceptance_add_extension(struct acceptance_criteria *criteria, const char *extension);

struct acceptance_verdict acceptance_check(const struct acceptance *acceptance, const char *project_path, bool is_binary);

/* Returns the API's name: "accepted", "denied", "ignored", "binary_ignored". */
const char *acceptance_status_name(enum acceptance_status status);

void acceptance_done(struct acceptance *acceptance);
