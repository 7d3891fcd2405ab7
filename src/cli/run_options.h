/*
 * The options of `agentfense run`: what the sandbox is to be, and what is to run in it.
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
    const char *dir;           /* borrowed from argv; NULL: none was named */
    const char *in;            /* a sandbox that exists */
    bool in_last;              /* the newest that exists */
    const char *workdir;
    char **command; /* borrowed from argv, ended by NULL; empty: none */
    uint32_t timeout_ms;
    bool is_interactive, has_tty, removes, is_quiet, is_json, is_verbose, no_stdin, wants_help;
    bool shapes_sandbox;            /* an option that only a new sandbox takes was given */
    bool changes_sandbox, sets_net; /* one that a sandbox that exists takes too; the network */
};

extern const char run_options_help[];

/* The words after "--" are the command; before it, options and at most one directory, in any order. */
int run_options_parse(struct run_options *options, int argc, char **argv, struct err *err);
/* Whether it runs in a sandbox that exists. */
bool run_options_go_on(const struct run_options *options);
void run_options_done(struct run_options *options);
