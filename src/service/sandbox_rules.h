/*
 * The rules that a sandbox is given: those of a preset, then its own, checked together, with what is odd about them.
 */
#pragma once

#include "base/err.h"
#include "policy/ruleset.h"
#include "service/sandbox_info.h"

struct service;

struct rule_warnings {
    char **items; /* owned, each too */
    size_t count;
};

void rule_warnings_done(struct rule_warnings *warnings);
void rule_warnings_move(struct rule_warnings *warnings, struct sandbox_info *info);

/* `preset` "": none. A rule that cannot be is refused by its number. */
int sandbox_rules_join(struct service *service, const char *codebase_id, const char *preset, const struct rule_list *own,
                       struct rule_list *ret, struct rule_warnings *ret_warnings, struct err *err);

/* As a sandbox over this codebase reads them. */
int sandbox_rules_compile(struct service *service, const char *codebase_id, const struct rule_list *rules, struct ruleset **ret,
                          struct err *err);
