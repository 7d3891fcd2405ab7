/*
 * Named sets of rules. The five names and their meaning are fixed; what exactly they hide is in one table.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "policy/rule.h"

struct preset {
    const char *name;
    const char *summary;
};

/* Sorted by name. */
const struct preset *preset_list(size_t *ret_count);

/* Appends the preset's rules. The error for an unknown name lists the known ones. */
int preset_add(const char *name, struct rule_list *rules, struct err *err);

/* Returns the preset with whose rules the list begins, and their number, or NULL. A list that was saved does not record where
 * its rules come from. */
const char *preset_find(const struct rule_list *rules, size_t *ret_count);

/* Appends the rules of `name`, then `additions`, then `overrides`, each of which is raised to 100 above the highest priority
 * among the others unless its priority is higher already. Either list may be NULL. */
int preset_extend(const char *name, const struct rule_list *additions, const struct rule_list *overrides,
                  struct rule_list *rules, struct err *err);
