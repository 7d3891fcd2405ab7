/*
 * The rules that a sandbox is given: those of a preset, then its own, checked together, with what is odd about them.
 */
#pragma once

#include "base/err.h"
#include "policy/ruleset.h"
#include "service/caller.h"
#include "service/sandbox_info.h"

struct codebase;
struct service;

struct rule_warnings {
    char **items; /* owned, each too */
    size_t count;
};

void rule_warnings_done(struct rule_warnings *warnings);

/* Another list made of one that there is: what is taken out goes first, what is added comes at the end. */
struct rule_edit {
    bool replaces;      /* by `preset` and `rules`; otherwise `rules` are added */
    const char *preset; /* "": none */
    const struct rule_list *rules;
    const char *const *patterns; /* whose rules are taken out */
    size_t pattern_count;
};

/* ERR_NOT_FOUND, RULE_UNKNOWN: there is no rule for a pattern. */
int rule_edit_apply(const struct rule_edit *edit, const struct rule_list *now, struct rule_list *ret, struct err *err);

/* `base_fd` is the directory that the sandbox is over. `preset` "": none. A rule that cannot be is refused by its number. */
int sandbox_rules_join(int base_fd, const char *preset, const struct rule_list *own, struct rule_list *ret,
                       struct rule_warnings *ret_warnings, struct err *err);

/* What a sandbox's rules are about: the tree that it is over, and those it has. */
struct rule_base {
    struct rule_list rules;    /* owned; those of a preset are known as such */
    struct ruleset *compiled;  /* owned: of these */
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
