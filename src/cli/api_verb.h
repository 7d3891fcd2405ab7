/*
 * A verb that calls the API: a table of options, a number of words, and a function that gets both with an open client.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "base/err.h"
#include "client/client.h"

/* Options of all these verbs. */
struct api_options {
    const char *server, *token_file, *ca_file, *cert_file, *key_file, *config; /* NULL: not given */
    bool is_json, is_quiet, wants_help, wants_last;
};

enum {
    API_OPT_SERVER = 0x2000,
    API_OPT_TOKEN_FILE,
    API_OPT_CA,
    API_OPT_CERT,
    API_OPT_KEY,
    API_OPT_CONFIG,
    API_OPT_JSON,
    API_OPT_LAST,
};

/* Which sandbox --last names, for verbs whose first word names a sandbox: the newest of all, or the newest over a directory. */
enum api_last { API_LAST_NONE, API_LAST_SANDBOX, API_LAST_WORKSPACE };

#define API_LONG_OPTIONS                                                                                                       \
    { "server", required_argument, NULL, API_OPT_SERVER }, { "token-file", required_argument, NULL, API_OPT_TOKEN_FILE },      \
        { "ca", required_argument, NULL, API_OPT_CA }, { "cert", required_argument, NULL, API_OPT_CERT },                      \
        { "key", required_argument, NULL, API_OPT_KEY }, { "config", required_argument, NULL, API_OPT_CONFIG },                \
        { "json", no_argument, NULL, API_OPT_JSON }, { "last", no_argument, NULL, API_OPT_LAST },                              \
        { "quiet", no_argument, NULL, 'q' }, { "help", no_argument, NULL, 'h' },                                               \
    {                                                                                                                          \
        0                                                                                                                      \
    }

#define API_LAST_HELP "  --last                 instead of its name: the one that was made last\n"
#define API_OPTIONS_HELP                                                                                                       \
    "  -q, --quiet            ids only, or nothing\n"                                                                          \
    "  --json                 what the API answers, as JSON\n"                                                                 \
    "  --server URL           http://HOST:PORT, https://HOST:PORT or unix:PATH ($AGENTFENSE_URL); without,\n"                  \
    "                         a private server of this user's state is started where none runs\n"                              \
    "  --token-file FILE      a file with the token to show ($AGENTFENSE_TOKEN has one itself)\n"                              \
    "  --ca FILE              whose certificates to believe, for https ($AGENTFENSE_CA)\n"                                     \
    "  --cert FILE            our certificate, for servers that ask for one ($AGENTFENSE_CLIENT_CERT)\n"                       \
    "  --key FILE             its key, if it is not in the same file ($AGENTFENSE_CLIENT_KEY)\n"                               \
    "  --config FILE          a server's configuration, to do without it as it would ($AGENTFENSE_CONFIG)\n"                   \
    "  -h, --help             this text\n"

struct api_call;

struct api_verb {
    const char *name; /* "codebase put" */
    enum api_last last;
    const char *help;
    const char *letters;          /* letters of short options, other than q and h */
    const struct option *options; /* ended by API_LONG_OPTIONS */
    int words_min, words_max;     /* -1: any number */
    bool takes_command;           /* the words after "--", or without it after the verb's own, are a command */
    size_t own_size;              /* of the verb's own options, zeroed */
    /* Takes one of the verb's own options. Returns -ENOENT for other options. */
    int (*take)(struct api_call *call, int option, const char *argument, struct err *err);
    /* Checks the combination of options and words, before a client is opened. May be NULL. */
    int (*check)(struct api_call *call, struct err *err);
    int (*run)(struct api_call *call, struct err *err); /* returns the exit code, or -errno with `err` */
    void (*done)(struct api_call *call);                /* frees the verb's options; may be NULL */
};

struct api_call {
    const struct api_verb *verb;
    struct api_options options;
    void *own;    /* owned; own_size bytes */
    char **words; /* borrowed */
    int word_count;
    char *last;     /* owned: the id of the sandbox that --last names */
    char **command; /* borrowed; ended by NULL */
    struct client *client;
};

/* Parses the words, opens a client and runs the verb; argv[0] is the verb's name. Returns the exit code. */
int api_verb_run(const struct api_verb *verb, int argc, char **argv);

/* Runs `agentfense NAME WORD ...`: the one of `verbs` whose second word is WORD. */
int api_verb_run_one_of(const char *name, const char *help, const struct api_verb *const *verbs, size_t count, int argc,
                        char **argv);

/* Returns whether we authenticate with a token, so that the server knows our name. */
bool api_has_token(const struct api_call *call);

/* ---- printing ---- */

json_t *api_message_json(const ProtobufCMessage *message);
/* Prints the message as indented JSON. */
void api_print_json(const ProtobufCMessage *message);
/* Prints "name: value" lines, without empty fields. */
void api_print_fields(const ProtobufCMessage *message);
/* Prints the message as JSON with --json, only its id with -q, otherwise as fields. */
void api_print(const struct api_call *call, const ProtobufCMessage *message, const char *id);

void api_free_message(ProtobufCMessage **message);
#define automessage __attribute__((cleanup(api_free_message))) ProtobufCMessage *

/* Makes a path of the command line absolute, because the server has another working directory. The path need not exist. The server opens it
 * itself and checks it. Free it. */
char *api_absolute_path(const char *path);
