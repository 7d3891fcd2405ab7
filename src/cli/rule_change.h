/*
 * Other rules for a sandbox, held against those that it has: what would they show that was hidden?
 *
 * Asked of every path of its codebase, and of names that each `none` rule is about, for what does not exist yet.
 */
#pragma once

#include "cli/api_verb.h"
#include "policy/rule.h"
#include <sandbox/v1/sandbox.pb-c.h>

/* The rules that a sandbox has. */
int rule_change_read(const Sandbox__V1__Sandbox *sandbox, struct rule_list *ret, struct err *err);

/* Gives the sandbox these rules. Unless `shows_hidden`, ERR_FAILED_PRECONDITION with the names if they show what was hidden. Prints the sandbox
 * and what is odd about its rules. */
int rule_change_make(struct api_call *call, const Sandbox__V1__Sandbox *sandbox, const struct rule_list *now, bool shows_hidden,
                     struct err *err);
