/*
 * The decision about the changes of a delta, which approve_run() demands before it writes anything. approve_run() makes the
 * checks itself, for every edit that would be written, and does not rely on its callers.
 *
 *  - acceptance: the rules of the sandbox's owner allow the change
 *  - acknowledgement: a change that may take effect on this host by itself (acknowledge.h) was acknowledged
 *  - shown: the change is the one that was shown
 *  - hooks: the project's hooks tested what is written
 *
 * A missing part means refusal: nothing is acknowledged, nothing was shown, no hook was run. Only acceptance must be given,
 * because most sandboxes have no such rules: a zeroed `struct acceptance` accepts everything.
 */
#pragma once

#include "review/acceptance.h"
#include "review/change_set.h"
#include "review/selection.h"

#define DECISION_HOOKS_FILE ".agentfense/hooks.json" /* in the project */

/* One change as it was shown. The strings are borrowed. */
struct expectation {
    const char *path;  /* from the root of the base */
    const char *hash;  /* of the change, in hex (struct file_change); "": a deletion that is half of a rename */
    const char *drift; /* if hunks are chosen: its drift then, in hex or "" (drift.h); NULL: any */
};

struct expectation_list {
    const struct expectation *items; /* by path, in bytes: expectation_sort() */
    size_t count;
    bool is_complete; /* a change that is not in the list was never shown */
};

/* Accepts any content: a person chose that explicitly. */
#define EXPECTATION_ANYTHING ((struct expectation_list){ .is_complete = false })

void expectation_sort(struct expectation *items, size_t count);

enum decision_hooks {
    DECISION_HOOKS_UNTRIED, /* none were run; refused if the project has hooks */
    DECISION_HOOKS_TRIED,   /* they passed on changes with the digest `tried`: nothing else may be written */
    DECISION_HOOKS_WAIVED,  /* the caller checked: there are no hooks, or a person who may skip them does */
};

/* All borrowed. */
struct decision {
    const struct acceptance *acceptance; /* never NULL */
    const char *prefix;                  /* the sandbox's root from the project's, for judging paths; NULL or "": the same */
    bool acknowledges_all;
    const char *const *acknowledged; /* names of reasons (acknowledge.h), or paths from the root of the base */
    size_t acknowledged_count;
    const struct expectation_list *shown; /* NULL: nothing was shown */
    enum decision_hooks hooks;
    const uint8_t *tried; /* FILE_STATE_HASH_BYTES */
};

/* ---- called by approve_run() ---- */

/* Returns 1, 0 or -errno. Reads the file only if the rules treat binary files differently. */
int decision_accepts(const struct decision *decision, const struct edit_list *list, const struct edit *edit, struct err *err);

/* Returns the reason if the change needs acknowledgement and has none, otherwise ACKNOWLEDGE_NOTHING. `change` is that of
 * one edit, without renames, in the set of all changes: it is judged as shown, whatever part of it is approved. */
enum acknowledge decision_lacks(const struct decision *decision, const struct file_change *change);

enum decision_shown {
    DECISION_NOT_SHOWN,
    DECISION_SHOWN_OTHERWISE, /* it was changed since */
    DECISION_SHOWN,
};

/* Or -errno. `re` is the edit reconciled with the project as it is now. Directories are skipped, because their contents are
 * checked. */
int decision_has_shown(const struct decision *decision, const struct edit_list *list, const struct edit *edit,
                       const struct reconcile *re, struct err *err);

/* Tells whether the project has hooks that were not run: 1, 0 or -errno. */
int decision_lacks_hooks(const struct decision *decision, int base_fd);

/* ---- for callers ---- */

/* Judges both paths of a rename and returns the stricter verdict, because the rename removes the file from its old place. */
struct acceptance_verdict decision_check_acceptance(const struct acceptance *acceptance, const struct file_change *change);
