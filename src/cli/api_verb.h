/*
 * A verb that calls the API. All are of one build: a table of options, a number of words,
 * and a function that gets both with an open client.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "base/err.h"
#include "client/client.h"

/* Options that all of them have. */
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

/* What --last means where a verb's first word names a sandbox: the one that was made last, of all or of workspaces. */
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
    const char *letters;          /* of short options beside q and h */
    const struct option *options; /* ended by API_LONG_OPTIONS */
    int words_min, words_max;     /* -1: any number */
    bool takes_command;           /* what stands after "--", or without one after the words, is no word */
    size_t own_size;              /* of the verb's own options, zeroed */
    /* One of the verb's own options. -ENOENT: it is none. */
    int (*take)(struct api_call *call, int option, const char *argument, struct err *err);
    /* Before a client is opened: whether it all fits together. May be NULL. */
    int (*check)(struct api_call *call, struct err *err);
    int (*run)(struct api_call *call, struct err *err); /* the exit code, or -errno and `err` */
    void (*done)(struct api_call *call);                /* what the options own; may be NULL */
};

struct api_call {
    const struct api_verb *verb;
    struct api_options options;
    void *own;    /* owned; own_size bytes */
    char **words; /* borrowed */
    int word_count;
    char *last;     /* owned: the first word, where --last was given */
    char **command; /* borrowed; ended by NULL */
    struct client *client;
};

/* Does all of it; argv[0] is the verb's name. Returns the exit code. */
int api_verb_run(const struct api_verb *verb, int argc, char **argv);

/* `agentfense codebase WORD ...`: one of several, by its second word. */
int api_verb_run_one_of(const char *name, const char *help, const struct api_verb *const *verbs, size_t count, int argc,
                        char **argv);

/* Whether we show one, and so are somebody whom the server knows by name. */
bool api_has_token(const struct api_call *call);

/* ---- what they print ---- */

json_t *api_message_json(const ProtobufCMessage *message);
/* The message as indented JSON. */
void api_print_json(const ProtobufCMessage *message);
/* "name: value" lines; what is empty is left out. */
void api_print_fields(const ProtobufCMessage *message);
/* As --json, -q (its id) or nothing says. */
void api_print(const struct api_call *call, const ProtobufCMessage *message, const char *id);

void api_free_message(ProtobufCMessage **message);
#define automessage __attribute__((cleanup(api_free_message))) ProtobufCMessage *
