/*
 * Which changes an approval may apply: what the owner of a sandbox allows and denies, by path and by extension.
 *
 * A path is matched from the root of the project. A glob is a path of segments: `**` stands for any number of them, also none; in the
 * others `*`, `?`, `[...]` and `\` work as in policies. A name alone matches only itself. A leading `/` or `./` and a slash at the
 * end do not count. A glob that cannot be read matches nothing. An extension is what follows the last dot of a name, in letters
 * of either case, given with the dot or without.
 *
 * A path meets criteria when a glob matches, or there are none, and its extension is listed, or none are. Criteria with neither
 * allow everything, and deny nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

#define ACCEPTANCE_GLOBS_MAX 1000 /* of each list; more are refused */

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
    const char
        *rule; /* the glob or else the extension that decided, as it was given; NULL: none did. As long as the acceptance */
};

/* 1: taken, but it cannot be read and matches nothing. -E2BIG for too many. */
int acceptance_add_glob(struct acceptance_criteria *criteria, const char *glob);
int acceptance_add_extension(struct acceptance_criteria *criteria, const char *extension);

struct acceptance_verdict acceptance_check(const struct acceptance *acceptance, const char *project_path, bool is_binary);

/* As the API has it: "accepted", "denied", "ignored", "binary_ignored". */
const char *acceptance_status_name(enum acceptance_status status);

void acceptance_done(struct acceptance *acceptance);
