/*
 * The options that define rules: --preset NAME, --policy FILE, --rule PATTERN=LEVEL[@PRIORITY].
 *
 * The rules of a preset come first, then those of policy files, then single rules, in any order on the command line. So the more specific source wins
 * a tie.
 */
#pragma once

#include <getopt.h>
#include <stddef.h>

#include "policy/rule.h"

enum {
    POLICY_OPT_PRESET = 0x1000, /* larger than any short option */
    POLICY_OPT_POLICY,
    POLICY_OPT_RULE,
};

/* Entries for the verb's table of long options. */
#define POLICY_LONG_OPTIONS                                                                                                    \
    { "preset", required_argument, NULL, POLICY_OPT_PRESET }, { "policy", required_argument, NULL, POLICY_OPT_POLICY },        \
    {                                                                                                                          \
        "rule", required_argument, NULL, POLICY_OPT_RULE                                                                       \
    }

#define POLICY_OPTIONS_HELP                                                                                                    \
    "  --preset NAME          start from a preset: agent-safe, development, full-access, read-only, view-only\n"               \
    "  --policy FILE          add the rules of a policy file (YAML, or JSON when it ends in .json)\n"                          \
    "  --rule PATTERN=LEVEL[@PRIORITY]\n"                                                                                      \
    "                         add one rule; may be given again. Levels: none, view, read, write\n"

struct policy_options {
    const char *preset; /* borrowed from argv; NULL: none */
    const char **files; /* owned array, borrowed strings */
    size_t file_count, file_cap;
    const char **shorts; /* single rules; owned array, borrowed strings */
    size_t short_count, short_cap;
};

void policy_options_done(struct policy_options *options);

/* Takes an option that getopt_long() returned. Returns false for other options. */
bool policy_options_take(struct policy_options *options, int option, const char *argument);

/* Loads all rules. Without any option it loads `default_preset`, or fails if that is NULL. */
int policy_options_load(const struct policy_options *options, const char *default_preset, struct rule_list *ret_rules,
                        struct err *err);
