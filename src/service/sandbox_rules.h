/*
 * The rules of a sandbox: those of a preset, then its own, checked together, with warnings.
 */
#pragma once

#include "base/err.h"
#include "policy/ruleset.h"
#include "service/caller.h"
#include "service/sandbox_info.h"

struct codebase;
struct service;

struct rule_warnings {
    char **items; /* owned, each item too */
    size_t count;
};

void rule_warnings_done(struct rule_warnings *warnings);

/* Edits a list of rules: removes some first, then adds others at the end. */
struct rule_edit {
    bool replaces;      /* replace all rules by `preset` and `rules`; otherwise add `rules` */
    const char *preset; /* "": none */
    const struct rule_list *rules;
    const char *const *patterns; /* patterns of the rules to remove */
    size_t pattern_count;
};

/* ERR_NOT_FOUND, RULE_UNKNOWN: a pattern has no rule. */
int rule_edit_apply(const struct rule_edit *edit, const struct rule_list *now, struct rule_list *ret, struct err *err);

/* `base_fd` is the directory that the sandbox is over. `preset` "": none. Refuses an invalid rule by its number. */
int sandbox_rules_join(int base_fd, const char *preset, const struct rule_list *own, struct rule_list *ret,
                       struct rule_warnings *ret_warnings, struct err *err);

/* The tree that a sandbox is over, and its rules. */
struct rule_base {
    struct rule_list rules;    /* owned; rules of a preset are marked as such */
    struct ruleset *compiled;  /* owned: compiled from `rules` */
    struct codebase *codebase; /* owned; NULL: it is over a directory */
    int fd;                    /* of the tree; O_PATH */
    bool owns_fd;
};

#define RULE_BASE_NONE ((struct rule_base){ .fd = -1 })

int rule_base_open(struct service *service, const struct caller *caller, const char *id, struct rule_base *ret,
                   struct err *err);
/* Without rules. */
int rule_base_open_codebase(struct service *service, const struct caller *caller, const char *codebase_id,
                            struct rule_base *ret, struct err *err);
int rule_base_compile(const struct rule_base *base, const struct rule_list *rules, struct ruleset **ret, struct err *err);
void rule_base_done(struct rule_base *base);
