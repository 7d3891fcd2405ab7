/*
 * A verb about the sandboxes of 'agentfense run', which needs no server (api_verb.h has those that call the API). All are of one build: a
 * table of options, a number of words, and a function that gets both.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>

#include "base/err.h"

enum { LOCAL_OPT_JSON = 0x2000 };

/* What ends each one's table of options. */
#define LOCAL_LONG_OPTIONS                                                                                                     \
    { "json", no_argument, NULL, LOCAL_OPT_JSON }, { "help", no_argument, NULL, 'h' },                                         \
    {                                                                                                                          \
        0                                                                                                                      \
    }

/* What is said when the word is missing that names one. */
#define LOCAL_SANDBOX_WANTED "say which sandbox; 'agentfense ls' lists them"

struct local_call {
    void *own;    /* borrowed: the verb's own options */
    char **words; /* borrowed from argv; ended by NULL */
    int word_count;
    bool is_json;
};

struct local_verb {
    const char *name;
    const char *help;
    const char *letters;          /* of short options, h among them */
    const struct option *options; /* ended by LOCAL_LONG_OPTIONS */
    int words_min, words_max;     /* -1: any number */
    const char *wanted;           /* said when there are too few words */
    /* One of the verb's own options, NULL where it has none. */
    int (*take)(void *own, int option, struct err *err);
    /* Whether it all fits together. May be NULL. */
    int (*check)(const struct local_call *call, struct err *err);
    int (*run)(const struct local_call *call, struct err *err); /* the exit code, or -errno and `err` */
};

/* Does all of it; argv[0] is the verb's name, `own` zeroed. Returns the exit code. */
int local_verb_run(const struct local_verb *verb, void *own, int argc, char **argv);
