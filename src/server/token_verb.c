#include "server/token_verb.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/config.h"
#include "service/tokens.h"
#include "store/store.h"

#define EXIT_USAGE 2
#define EXIT_FAILED 125
#define ROOTS_MAX 64

static const char help[] =
    "usage: agentfense token create --owner OWNER [--name NAME] [--expires SPAN] [--admin] [--root DIR]... [--json]\n"
    "       agentfense token list [--owner OWNER] [--json]\n"
    "       agentfense token revoke ID\n\n"
    "Who sends a token with a call ('authorization: Bearer TOKEN') is its owner, and sees that owner's codebases and\n"
    "sandboxes; with --admin everybody's. A token is shown once, when it is made.\n\n"
    "  --config FILE     the server's configuration, for its storage.db_path ($AGENTFENSE_CONFIG)\n"
    "  --db-path PATH    the database itself\n"
    "  --expires SPAN    '720h': after which it is no more; without, it holds until it is revoked\n"
    "  --root DIR        a directory that its holder may have sandboxes over\n";

struct options {
    const char *owner, *name, *db_path, *config;
    const char *roots[ROOTS_MAX + 1];
    size_t root_count;
    int64_t expires_ns;
    bool is_admin, is_json, wants_help;
};

static int parse_token_options(struct options *o, int argc, char **argv, struct err *err)
{
    static const struct option known[] = {
        { "owner", required_argument, NULL, 'o' },   { "name", required_argument, NULL, 'n' },
        { "expires", required_argument, NULL, 'e' }, { "admin", no_argument, NULL, 'a' },
        { "root", required_argument, NULL, 'r' },    { "json", no_argument, NULL, 'j' },
        { "config", required_argument, NULL, 'c' },  { "db-path", required_argument, NULL, 'd' },
        { "help", no_argument, NULL, 'h' },          { 0 },
    };
    int option, r;

    *o = (struct options){ .owner = "", .name = "" };
    opterr = 0;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        switch (option) {
        case 'o':
            o->owner = optarg;
            break;
        case 'n':
            o->name = optarg;
            break;
        case 'e':
            r = clock_parse_duration(optarg, &o->expires_ns, err);
            if (r < 0)
                return err_wrap(err, r, "--expires");
            break;
        case 'a':
            o->is_admin = true;
            break;
        case 'r':
            if (o->root_count == ROOTS_MAX)
                return err_invalid(err, "more than %d --root", ROOTS_MAX);
            if (*optarg != '/')
                return err_invalid(err, "--root '%s' is no absolute path", optarg);
            o->roots[o->root_count++] = optarg;
            break;
        case 'j':
            o->is_json = true;
            break;
        case 'c':
            o->config = optarg;
            break;
        case 'd':
            o->db_path = optarg;
            break;
        case 'h':
            o->wants_help = true;
            break;
        default:
            return err_invalid(err, "'%s' is not understood; --help tells what is", argv[optind - 1]);
        }
    }
    return 0;
}

/* Opens the database that the server's settings name. */
static int open_token_store(const struct options *o, struct store **ret, struct err *err)
{
    const char *argv[5] = { "serve" };
    struct config config;
    int argc = 1, r;

    if (o->config) {
        argv[argc++] = "--config";
        argv[argc++] = o->config;
    }
    if (o->db_path) {
        argv[argc++] = "--db-path";
        argv[argc++] = o->db_path;
    }
    log_set_level(LOG_LEVEL_WARN);
    r = config_load(&config, argc, argv, err);
    if (r == 0)
        r = store_open(config.db_path, NULL, ret, err);
    config_done(&config);
    return r;
}

static void format_time(int64_t ns, char out[CLOCK_TEXT_MAX])
{
    if (ns == 0 || clock_format(clock_timespec_of_ns(ns), 0, out) < 0)
        snprintf(out, CLOCK_TEXT_MAX, "-");
}

static json_t *describe_token(const struct token_info *info)
{
    char created[CLOCK_TEXT_MAX], expires[CLOCK_TEXT_MAX], revoked[CLOCK_TEXT_MAX], used[CLOCK_TEXT_MAX];

    format_time(info->created_ns, created);
    format_time(info->expires_ns, expires);
    format_time(info->revoked_ns, revoked);
    format_time(info->used_ns, used);
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:s*, s:s*, s:s*}", "id", info->id, "owner", info->owner, "name", info->name,
                     "admin", info->is_admin, "created", created, "expires", info->expires_ns ? expires : NULL, "revoked",
                     info->revoked_ns ? revoked : NULL, "lastUsed", info->used_ns ? used : NULL);
}

static void print_token_json(json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(value);
}

static int create_token(struct store *store, const struct options *o, struct err *err)
{
    struct token_info info = { 0 };
    char *secret = NULL;
    int r = tokens_create(store, o->owner, o->name, o->is_admin, o->expires_ns, o->roots, &info, &secret, err);

    if (r < 0)
        return r;
    if (o->is_json) {
        json_t *value = describe_token(&info);
        json_object_set_new(value, "token", json_string(secret));
        print_token_json(value);
    } else {
        printf("%s\n", secret);
        fprintf(stderr, "token %s of '%s'; it is not shown again\n", info.id, info.owner);
    }
    explicit_bzero(secret, strlen(secret));
    free(secret);
    token_info_done(&info);
    return 0;
}

static const char *token_state(const struct token_info *info)
{
    if (info->revoked_ns)
        return "revoked";
    return info->expires_ns && info->expires_ns <= clock_wall_ns() ? "expired" : "valid";
}

static void print_token_row(const struct token_info *info)
{
    char created[CLOCK_TEXT_MAX], used[CLOCK_TEXT_MAX];
    autodone(buf) struct buf owner = BUF_EMPTY;
    autodone(buf) struct buf name = BUF_EMPTY;

    format_time(info->created_ns, created);
    format_time(info->used_ns, used);
    buf_add_escaped(&owner, info->owner, strlen(info->owner));
    buf_add_escaped(&name, info->name, strlen(info->name));
    printf("%-21s %-8s %-6s %-20s %-21s %-21s %s\n", info->id, token_state(info), info->is_admin ? "admin" : "", owner.data,
           created, used, name.data ? name.data : "");
}

static int list_tokens(struct store *store, const struct options *o, struct err *err)
{
    struct token_list tokens = { 0 };
    int r = tokens_list(store, o->owner, &tokens, err);

    if (r == 0 && o->is_json) {
        json_t *rows = json_array();
        for (size_t i = 0; i < tokens.count; i++)
            json_array_append_new(rows, describe_token(&tokens.items[i]));
        print_token_json(rows);
    } else if (r == 0) {
        printf("%-21s %-8s %-6s %-20s %-21s %-21s %s\n", "ID", "STATE", "", "OWNER", "CREATED", "LAST USED", "NAME");
        for (size_t i = 0; i < tokens.count; i++)
            print_token_row(&tokens.items[i]);
    }
    token_list_done(&tokens);
    return r;
}

static int run_token_verb(const char *what, const char *id, const struct options *o, struct err *err)
{
    autoptr(store) store = NULL;
    int r = open_token_store(o, &store, err);

    if (r < 0)
        return r;
    if (strcmp(what, "create") == 0)
        return create_token(store, o, err);
    if (strcmp(what, "list") == 0)
        return list_tokens(store, o, err);
    r = tokens_revoke(store, id, err);
    if (r == 0)
        printf("%s\n", id);
    return r;
}

/* Returns what is wrong with the arguments, or NULL. */
static const char *check_token_words(int argc, char **argv, const struct options *o)
{
    const char *what = optind < argc ? argv[optind] : "";
    int words = argc - optind;

    if (strcmp(what, "create") == 0)
        return words != 1 ? "create takes options only" : !*o->owner ? "create needs --owner" : NULL;
    if (strcmp(what, "list") == 0)
        return words != 1 ? "list takes options only" : NULL;
    if (strcmp(what, "revoke") == 0)
        return words != 2 ? "revoke takes the id of one token" : NULL;
    return "create, list or revoke?";
}

int token_verb(int argc, char **argv)
{
    struct options o;
    struct err err = ERR_NONE;
    const char *wrong;
    int r = parse_token_options(&o, argc, argv, &err);

    if (r < 0 || o.wants_help) {
        fprintf(r < 0 ? stderr : stdout, "%s%s%s", r < 0 ? "agentfense token: " : "", r < 0 ? err.text : help,
                r < 0 ? "\n" : "");
        return r < 0 ? EXIT_USAGE : EXIT_SUCCESS;
    }
    wrong = check_token_words(argc, argv, &o);
    if (wrong) {
        fprintf(stderr, "agentfense token: %s\n%s", wrong, help);
        return EXIT_USAGE;
    }
    r = run_token_verb(argv[optind], optind + 1 < argc ? argv[optind + 1] : "", &o, &err);
    if (r < 0)
        fprintf(stderr, "agentfense token: %s\n", err.text);
    return r < 0 ? EXIT_FAILED : EXIT_SUCCESS;
}
