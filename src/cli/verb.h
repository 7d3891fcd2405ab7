/*
 * A verb of the command line: `agentfense <name> ...`. One file each, cmd_<name>.c, all of the same build: options into a
 * struct, checks, then the work, which lives in another room. The table of them is in main.c; those of agentfense-client are in client_verbs.h.
 */
#pragma once

#include <stdbool.h>

/* Exit codes of our own; a verb that runs a command otherwise exits with the command's. */
enum {
    EXIT_USAGE = 2, /* the words of the call are off */
    EXIT_TIMED_OUT = 124,
    EXIT_OURS = 125, /* we failed, not the command */
    EXIT_OOM = 137,
};

struct verb {
    const char *name;
    const char *summary;               /* one line of `agentfense help`; NULL: an alias that no help lists */
    int (*run)(int argc, char **argv); /* argv[0] is "agentfense VERB"; returns the exit code */
    const char *program;               /* instead of `run`: which of our programs the verb is part of */
};

#define CLIENT_PROGRAM "agentfense-client"

extern const struct verb verb_delta;
extern const struct verb verb_doctor;
extern const struct verb verb_mount;
extern const struct verb verb_policy;
extern const struct verb verb_run;
