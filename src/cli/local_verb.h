/*
 * A verb about the sandboxes of 'agentfense run', which needs no server (api_verb.h has the verbs that call the API): a table of options, a number of
 * words, and a function that gets both.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>

#include "base/err.h"

enum { LOCAL_OPT_JSON = 0x2000 };

/* The end of each verb's table of options. */
#define LOCAL_LONG_OPTIONS                                                                                                     \
    { "json", no_argument, NULL, LOCAL_OPT_JSON }, { "help", no_argument, NULL, 'h' },                                         \
    {                                                                                                                          \
        0                                                                                                                      \
    }

/* The advice if the word that names a sandbox is missing. */
#define LOCAL_SANDBOX_WANTED "name a sandbox; 'agentfense ls' lists them"

struct local_call {
    void *own;    /* borrowed: the verb's own options */
    char **words; /* borrowed from argv; ended by NULL */
    int word_count;
    bool is_json;
};

struct local_verb {
    const char *name;
    const char *help;
    const char *letters;          /* letters of short options, including h */
    const struct option *options; /* ended by LOCAL_LONG_OPTIONS */
    int words_min, words_max;     /* -1: any number */
    const char *wanted;           /* the message if there are too few words */
    /* Takes one of the verb's own options. NULL if it has none. */
    int (*take)(void *own, int option, struct err *err);
    /* Checks the combination of options and words. May be NULL. */
    int (*check)(const struct local_call *call, struct err *err);
    int (*run)(const struct local_call *call, struct err *err); /* returns the exit code, or -errno with `err` */
};

/* Parses the words and runs the verb; argv[0] is its name, and the caller has zeroed `own`. Returns the exit code. */
int local_verb_run(const struct local_verb *verb, void *own, int argc, char **argv);
