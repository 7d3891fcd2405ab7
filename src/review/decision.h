/*
 * What was decided about the changes of a delta, as approve_run() demands it before it writes anything. The checks are made there, for every edit
 * that would be written, and not by those who call it.
 *
 *  - acceptance: the rules of the sandbox's owner let the change in
 *  - acknowledgement: a change that may do something on this host by itself (acknowledge.h) was acknowledged
 *  - shown: the change is what was shown
 *  - hooks: the project's hooks tried what is written
 *
 * What a caller leaves out is refused: nothing is acknowledged, nothing was shown, no hook was run. Only acceptance has to be given, because most
 * sandboxes have no such rules: a zeroed `struct acceptance` lets everything in.
 */
#pragma once

#include "review/acceptance.h"
#include "review/change_set.h"
#include "review/selection.h"

#define DECISION_HOOKS_FILE ".agentfense/hooks.json" /* in the project */

/* One change as it was shown. The strings are borrowed. */
struct expectation {
    const char *path; /* from the root of the base */
    const char *hash; /* of the change, in hex (struct file_change); "": it is deleted, as half of a rename */
    const char *
        drift; /* where hunks are chosen: how it stood to the project then, in hex or "" (drift.h); NULL: however it stands. Other
                             hunks are shown of the same file of the agent's when the project moves on */
};

struct expectation_list {
    const struct expectation *items; /* by path, in bytes: expectation_sort() */
    size_t count;
    bool is_complete; /* a change that is not among them was never shown */
};

/* Whatever is there is meant: a person said so, in full knowledge of it. */
#define EXPECTATION_ANYTHING ((struct expectation_list){ .is_complete = false })

void expectation_sort(struct expectation *items, size_t count);

enum decision_hooks {
    DECISION_HOOKS_UNTRIED, /* none were run: refused, if the project has any */
    DECISION_HOOKS_TRIED,   /* they passed on what has the digest `tried`: nothing else is written */
    DECISION_HOOKS_WAIVED,  /* the caller has looked: there are none, or somebody who may do without them wants that */
};

/* All borrowed. */
struct decision {
    const struct acceptance *acceptance; /* never NULL */
    const char *prefix; /* the sandbox's root from the project's, by which paths are judged; NULL or "": the same */
    bool acknowledges_all;
    const char *const *acknowledged; /* reasons by their names (acknowledge.h), or paths from the root of the base */
    size_t acknowledged_count;
    const struct expectation_list *shown; /* NULL: nothing was */
    enum decision_hooks hooks;
    const uint8_t *tried; /* FILE_STATE_HASH_BYTES */
};

/* ---- what approve_run() asks ---- */

/* 1, 0 or -errno. Reads the file only if the rules tell text from other bytes. */
int decision_accepts(const struct decision *decision, const struct edit_list *list, const struct edit *edit, struct err *err);

/* The reason for which it has to be acknowledged and is not; or ACKNOWLEDGE_NOTHING. `change` is that of one edit, without renames, in the set of all
 * changes: it is judged as it is shown, whatever part of it is approved. */
enum acknowledge decision_lacks(const struct decision *decision, const struct file_change *change);

enum decision_shown {
    DECISION_NOT_SHOWN,
    DECISION_SHOWN_OTHERWISE, /* it was changed since */
    DECISION_SHOWN,
};

/* Or -errno. `re` is the edit reconciled with the project as it is now. Directories are not looked at: what is in them is. */
int decision_has_shown(const struct decision *decision, const struct edit_list *list, const struct edit *edit,
                       const struct reconcile *re, struct err *err);

/* Whether the project has hooks that nobody ran: 1, 0 or -errno. */
int decision_lacks_hooks(const struct decision *decision, int base_fd);

/* ---- for callers ---- */

/* Of both paths of a rename the one that is let in less: it takes the file away from where it was. */
struct acceptance_verdict decision_check_acceptance(const struct acceptance *acceptance, const struct file_change *change);
