/*
 * Replaces the rules of a sandbox, after a check whether the new rules reveal paths that were hidden.
 *
 * The check covers every path of the codebase and, for paths that do not exist yet, names that match each `none` rule.
 */
#pragma once

#include "cli/api_verb.h"
#include "policy/rule.h"
#include <sandbox/v1/sandbox.pb-c.h>

/* Reads the current rules of a sandbox. */
int rule_change_read(const Sandbox__V1__Sandbox *sandbox, struct rule_list *ret, struct err *err);

/* Replaces the rules. Unless `shows_hidden`, refuses rules that reveal hidden paths with ERR_FAILED_PRECONDITION and names the paths. Prints the
 * sandbox and warnings about its rules. */
int rule_change_make(struct api_call *call, const Sandbox__V1__Sandbox *sandbox, const struct rule_list *now, bool shows_hidden,
                     struct err *err);
