/*
 * Rules to start from, by name. The five names and their meaning are fixed; what exactly they hide is kept here, in one
 * table.
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

/* Appends the preset's rules. An unknown name is refused with the list of those there are. */
int preset_add(const char *name, struct rule_list *rules, struct err *err);

/* The preset whose rules these begin with, and how many they are; NULL: none. A list that was kept does not say where its rules are from. */
const char *preset_find(const struct rule_list *rules, size_t *ret_count);

/* The rules of `name`, then `additions` as they are, then `overrides`, each raised to 100 above the highest priority among
 * the others unless it is higher already. Either list may be NULL. */
int preset_extend(const char *name, const struct rule_list *additions, const struct rule_list *overrides,
                  struct rule_list *rules, struct err *err);
