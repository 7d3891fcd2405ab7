#include "cli/api_verb.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/suggest.h"
#include "cli/verb.h"
#include "rest/json_message.h"
#include "server/config.h"

#define TOKEN_BYTES_MAX 4096

/* ---- options ---- */

static bool take_common(struct api_options *o, int option, const char *argument)
{
    switch (option) {
    case API_OPT_SERVER:
        o->server = argument;
        return true;
    case API_OPT_TOKEN_FILE:
        o->token_file = argument;
        return true;
    case API_OPT_CA:
        o->ca_file = argument;
        return true;
    case API_OPT_CERT:
        o->cert_file = argument;
        return true;
    case API_OPT_KEY:
        o->key_file = argument;
        return true;
    case API_OPT_CONFIG:
        o->config = argument;
        return true;
    case API_OPT_JSON:
        o->is_json = true;
        return true;
    case API_OPT_LAST:
        o->wants_last = true;
        return true;
    case 'q':
        o->is_quiet = true;
        return true;
    case 'h':
        o->wants_help = true;
        return true;
    default:
        return false;
    }
}

static int find_command(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            return i;
    }
    return argc;
}

/* Returns the required word number `index` of a usage line, or NULL if it has fewer. Required words are capitals outside brackets. */
static char *dup_operand(const char *usage, int len, int index)
{
    for (int at = 0; at < len; at++) {
        const char *word = usage + at;
        int size = (int) strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ:");

        if (size > 0 && usage[at - 1] == ' ' && index-- == 0)
            return xdupn(word, (size_t) size);
        at += (int) strcspn(word, " \n");
    }
    return NULL;
}

/* Finds the usage line in a verb's help that takes more than `words` words, and the first word that is missing. A help text may have several usage
 * lines, and may cover two verbs. */
static const char *find_usage(const struct api_verb *verb, int words, int *ret_len, char **ret_operand)
{
    autofree char *call = xprintf("agentfense %s ", verb->name);
    const char *at = verb->help;

    while (!*ret_operand && (at = strstr(at, call))) {
        *ret_len = (int) strcspn(at, "\n");
        *ret_operand = dup_operand(at, *ret_len, words);
        at += *ret_operand ? 0 : *ret_len;
    }
    return at;
}

/* Returns the verb that lists the objects a word such as SANDBOX may name. */
static const char *find_lister(const char *operand)
{
    static const char *const listers[][2] = { { "SANDBOX", "ls" },
                                              { "CODEBASE", "codebase ls" },
                                              { "SESSION", "session ls SANDBOX" } };

    for (size_t i = 0; i < ARRAY_LEN(listers); i++) {
        if (strcmp(operand, listers[i][0]) == 0)
            return listers[i][1];
    }
    return NULL;
}

static int refuse_too_few(const struct api_call *call, struct err *err)
{
    autofree char *operand = NULL, *listed = NULL;
    int len = 0;
    const char *usage = find_usage(call->verb, call->word_count, &len, &operand);

    if (!usage)
        return err_invalid(err, "a word is missing; see 'agentfense %s --help'", call->verb->name);
    const char *lister = find_lister(operand);
    listed = lister ? xprintf(" ('agentfense %s' lists them)", lister) : xdup("");
    return err_invalid(err, "%s is missing%s; usage: %.*s", operand, listed, len, usage);
}

static int refuse_words(const struct api_call *call, struct err *err)
{
    if (call->word_count < call->verb->words_min)
        return refuse_too_few(call, err);
    autodone(buf) struct buf shown = BUF_EMPTY;
    const char *word = call->words[call->verb->words_max];
    buf_add_excerpt(&shown, word, strlen(word));
    return err_invalid(err, "one word too many: '%s'; see 'agentfense %s --help'", shown.data ? shown.data : "",
                       call->verb->name);
}

static int parse(struct api_call *call, int argc, char **argv, struct err *err)
{
    const struct api_verb *verb = call->verb;
    int split = verb->takes_command ? find_command(argc, argv) : argc, option;
    /* Without "--", the words after the verb's own are the command, and options behind them belong to it. */
    bool is_open = verb->takes_command && split == argc;
    autofree char *letters = xprintf("%s:qh%s", is_open ? "+" : "", verb->letters ? verb->letters : "");

    call->command = argv + (split < argc ? split + 1 : argc);
    optind = 0;
    opterr = 0;
    while ((option = getopt_long(split, argv, letters, verb->options, NULL)) != -1) {
        int r = 0;

        if (option == ':')
            return err_invalid(err, "option '%s' needs a value", argv[optind - 1]);
        if (option == '?')
            return err_invalid(err, "unknown option '%s'; see 'agentfense %s --help'", argv[optind - 1], verb->name);
        if (!take_common(&call->options, option, optarg))
            r = verb->take(call, option, optarg, err);
        if (r < 0 || call->options.wants_help)
            return r;
    }
    call->words = argv + optind;
    call->word_count = split - optind;
    if (call->options.wants_last && verb->last == API_LAST_NONE)
        return err_invalid(err, "--last means a sandbox, and this verb takes none; see 'agentfense %s --help'", verb->name);
    /* getopt(3) has moved all options before the words, so there is room for one more. find_last() replaces it by the id. */
    if (call->options.wants_last) {
        static char last[] = "--last";
        *--call->words = last;
        call->word_count++;
    }
    if (is_open && call->word_count > verb->words_max) {
        call->word_count = verb->words_max;
        call->command = call->words + call->word_count;
    }
    if (call->word_count < verb->words_min || (verb->words_max >= 0 && call->word_count > verb->words_max))
        return refuse_words(call, err);
    return verb->check ? verb->check(call, err) : 0;
}

/* ---- opening the client ---- */

static const char *from_environment(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

bool api_has_token(const struct api_call *call)
{
    return call->options.token_file || from_environment("AGENTFENSE_TOKEN");
}

static int read_token(const char *path, char **ret, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : fd_read_all(fd, TOKEN_BYTES_MAX, &text);

    if (r < 0)
        return err_errno(err, r, "--token-file '%s'", path);
    if (text.len == 0)
        return err_invalid(err, "--token-file '%s' is empty", path);
    *ret = xdupn(text.data, strcspn(text.data, "\r\n"));
    explicit_bzero(text.data, text.len);
    return 0;
}

/* Loads the settings for a private server. */
static int load_config(const struct api_options *o, struct config *config, struct err *err)
{
    const char *argv[3] = { "serve" };
    int argc = 1;

    if (o->config) {
        argv[argc++] = "--config";
        argv[argc++] = o->config;
    }
    return config_load(config, argc, argv, err);
}

/* Reads AGENTFENSE_HTTP_TIMEOUT: "30s", or a number of seconds. */
static int read_timeout(int64_t *ret_ms, struct err *err)
{
    const char *given = from_environment("AGENTFENSE_HTTP_TIMEOUT");
    bool is_number = given && strspn(given, "0123456789") == strlen(given);
    autofree char *text = given ? xprintf("%s%s", given, is_number ? "s" : "") : NULL;
    int64_t ns = 0;
    int r = text ? clock_parse_duration(text, &ns, err) : 0;

    *ret_ms = (ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    return r < 0 ? err_wrap(err, r, "AGENTFENSE_HTTP_TIMEOUT") : 0;
}

static int open_client(struct api_call *call, struct err *err)
{
    const struct api_options *o = &call->options;
    autofree char *token = NULL, *settings = NULL;
    struct config config = { 0 };
    struct client_options options = {
        .server = o->server ? o->server : from_environment("AGENTFENSE_URL"),
        .ca_file = o->ca_file ? o->ca_file : from_environment("AGENTFENSE_CA"),
        .cert_file = o->cert_file ? o->cert_file : from_environment("AGENTFENSE_CLIENT_CERT"),
        .key_file = o->key_file ? o->key_file : from_environment("AGENTFENSE_CLIENT_KEY"),
        .cancel_fd = interrupt_fd(),
    };
    int r = o->token_file ? read_token(o->token_file, &token, err) : 0;

    if (r == 0)
        r = read_timeout(&options.timeout_ms, err);
    if (r == 0 && !options.server)
        r = load_config(o, &config, err);
    if (r == 0) {
        options.token = token ? token : from_environment("AGENTFENSE_TOKEN");
        if (!options.server) {
            settings = config_show(&config);
            options.settings = settings;
            options.config_file = o->config;
            options.state_path = config.mount_path;
            options.local_address = config.http_addr;
            options.local_is_tls = *config.tls_cert;
        }
        r = client_open(&options, &call->client, err);
    }
    config_done(&config);
    return r;
}

/* ---- running the verb ---- */

static int end(const struct api_call *call, int r, const struct err *err)
{
    int code = err->code == ERR_CANCELLED ? interrupt_exit_code() : 0;

    if (r >= 0)
        return r;
    return code ? code : output_error(call->verb->name, err);
}

static int find_last(struct api_call *call, struct err *err)
{
    int r = lookup_last(call->client, call->verb->last == API_LAST_WORKSPACE, &call->last, err);

    if (r == 0)
        call->words[0] = call->last;
    return r;
}

int api_verb_run(const struct api_verb *verb, int argc, char **argv)
{
    struct api_call call = { .verb = verb, .own = xalloc(verb->own_size + 1) };
    struct err err = ERR_NONE;
    int r = parse(&call, argc, argv, &err);

    if (r == 0 && call.options.wants_help) {
        fputs(verb->help, stdout);
    } else if (r == 0) {
        log_set_level(LOG_LEVEL_ERROR); /* other messages, such as refusals, are events: 'agentfense events' prints them */
        log_set_format(LOG_FORMAT_TEXT);
        r = interrupt_init();
        if (r < 0)
            err_errno(&err, r, "signals");
        if (r == 0)
            r = open_client(&call, &err);
        if (r == 0 && call.options.wants_last)
            r = find_last(&call, &err);
        if (r == 0)
            r = verb->run(&call, &err);
    }
    client_close(call.client);
    free(call.last);
    if (verb->done)
        verb->done(&call);
    free(call.own);
    return end(&call, r, &err);
}

int api_verb_run_one_of(const char *name, const char *help, const struct api_verb *const *verbs, size_t count, int argc,
                        char **argv)
{
    const char *word = argc > 1 ? argv[1] : "", *meant;
    size_t skip = strlen(name) + 1;
    autofree const char **words = xalloc((count + 1) * sizeof(*words));

    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, verbs[i]->name + skip) == 0)
            return api_verb_run(verbs[i], argc - 1, argv + 1);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    if (!*word) {
        fprintf(stderr, "agentfense %s: the second word must be one of ", name);
        for (size_t i = 0; i < count; i++)
            fprintf(stderr, "%s%s", verbs[i]->name + skip, i + 1 < count ? ", " : "\n");
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < count; i++)
        words[i] = verbs[i]->name + skip;
    meant = suggest_word(word, words);
    fprintf(stderr, "agentfense %s: unknown word '", name);
    output_escaped(stderr, word);
    fprintf(stderr, "'; %s%s%s'agentfense %s --help' lists them\n", meant ? "did you mean '" : "", meant ? meant : "",
            meant ? "'? " : "", name);
    return EXIT_USAGE;
}

/* ---- printing ---- */

json_t *api_message_json(const ProtobufCMessage *message)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    json_message_add(&text, message);
    return json_loadb(text.data, text.len, 0, NULL);
}

void api_print_json(const ProtobufCMessage *message)
{
    output_json(api_message_json(message));
}

static bool is_empty(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) || (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_string(value) && strcmp(json_string_value(value), "0") == 0) ||
           (json_is_integer(value) && json_integer_value(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) || (json_is_object(value) && json_object_size(value) == 0);
}

void api_print_fields(const ProtobufCMessage *message)
{
    json_t *all = api_message_json(message), *value;
    const char *name;

    json_object_foreach(all, name, value)
    {
        if (!is_empty(value))
            output_field(name, value);
    }
    json_decref(all);
}

void api_print(const struct api_call *call, const ProtobufCMessage *message, const char *id)
{
    if (call->options.is_json)
        api_print_json(message);
    else
        puts(id);
}

void api_free_message(ProtobufCMessage **message)
{
    if (*message)
        protobuf_c_message_free_unpacked(*message, NULL);
}

char *api_absolute_path(const char *path)
{
    autofree char *real = realpath(path, NULL), *here = NULL;

    if (real)
        return steal_ptr(&real);
    here = *path == '/' ? NULL : getcwd(NULL, 0);
    return here ? xprintf("%s/%s", here, path) : xdup(path);
}
