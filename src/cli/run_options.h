/*
 * The options of `agentfense run`: the spec of the sandbox, and the command to run in it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/policy_options.h"
#include "wire/sandbox_spec.h"

struct run_options {
    struct policy_options policy;
    struct sandbox_spec *spec; /* owned; without rules, name and base */
    const char *dir;           /* borrowed from argv; NULL: the current directory */
    const char *in;            /* name of an existing sandbox */
    bool in_last;              /* use the newest existing sandbox */
    const char *workdir;
    char **command; /* borrowed from argv, ended by NULL; may be empty */
    uint32_t timeout_ms;
    bool is_interactive, has_tty, removes, is_quiet, is_json, is_verbose, no_stdin, wants_help;
    bool shapes_sandbox;            /* an option was given that only a new sandbox accepts */
    bool changes_sandbox, sets_net; /* an option that existing sandboxes accept too; the network */
};

extern const char run_options_help[];

/* The words after "--" are the command. Before it come options and at most one directory, in any order. */
int run_options_parse(struct run_options *options, int argc, char **argv, struct err *err);
/* Returns whether the command runs in an existing sandbox. */
bool run_options_go_on(const struct run_options *options);
void run_options_done(struct run_options *options);
