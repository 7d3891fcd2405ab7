/*
 * 'workspace-sandbox' is our second program name: it accepts the verbs, options and variables of another tool that people know, and translates them
 * into ours. Output and exit codes are those of 'agentfense'.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/suggest.h"
#include "cli/verb.h"
#include <sandbox/v1/server.pb-c.h>

#define CONFIG_FILE "workspace-sandbox.json"
#define CONFIG_BYTES_MAX 65536

static const char help[] =
    "usage: workspace-sandbox [--api-base URL] [--color | --no-color] COMMAND [options]\n\n"
    "Sandboxes over live directories, whose changes are reviewed before they become real. This is 'agentfense' by another\n"
    "name; each command is one of its verbs, and 'workspace-sandbox COMMAND --help' prints its usage.\n\n"
    "  status                 whether it is well, and what there is\n"
    "  create                 --scope DIR [--project DIR] [--owner NAME] [--reserve PATH] [--reserved-paths A,B]\n"
    "  list                   [--status STATUS] [--owner NAME]\n"
    "  inspect, start, stop, delete, workspace ID\n"
    "  diff ID                [--raw]\n"
    "  approve ID             [-m TEXT --commit] [--force] [--override-acceptance] [-p] [PATH...]\n"
    "  reject, restore, conflicts, rebase, undo ID\n"
    "  discard ID PATH...\n"
    "  exec ID -- COMMAND     [--timeout SEC] [--workdir DIR] [--env K=V] [--memory MB] ...\n"
    "  run ID -- COMMAND      in the background; [--name NAME]\n"
    "  shell ID, attach ID [PROCESS]  a terminal in it; back to one that was left running\n"
    "  processes, kill, logs ID  [--running] [--pid N | --all] [--follow] [--tail N]\n"
    "  gc, gc-preview         [--older-than 24h] [--idle 4h] [--limit N] [--dry-run]\n"
    "  pending, provenance --path FILE, commit-pending -m TEXT\n"
    "  driver-info            how changes are kept apart\n"
    "  configure              [api_base|token VALUE]: print settings, or keep one\n\n"
    "--json prints what the API answers. Without --api-base, WORKSPACE_SANDBOX_API_BASE, WORKSPACE_SANDBOX_API_URL, a saved\n"
    "setting or WORKSPACE_SANDBOX_API_PORT, the state of this user is used directly. WORKSPACE_SANDBOX_API_TOKEN has the\n"
    "token to show, and WORKSPACE_SANDBOX_HTTP_TIMEOUT how long a request may take (30s; a mere number is seconds).\n";

/* ---- settings ---- */

static void release_json(json_t **value)
{
    json_decref(*value);
}
#define autojson __attribute__((cleanup(release_json))) json_t *

static const char *config_text(const json_t *config, const char *key)
{
    const char *text = json_string_value(json_object_get(config, key));

    return text ? text : "";
}

static int open_config_dir(bool create)
{
    const char *given = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    autofree char *top = given && *given == '/' ? xdup(given) : xprintf("%s/.config", home && *home ? home : "/nonexistent");
    autofree char *path = xprintf("%s/agentfense", top);
    int fd;

    if (create) {
        (void) mkdir(top, 0700);
        (void) mkdir(path, 0700);
    }
    fd = open(path, O_DIRECTORY | O_CLOEXEC | O_RDONLY);
    return fd < 0 ? -errno : fd;
}

/* Returns an empty object if there is no file. */
static json_t *load_config(void)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int dir = open_config_dir(false);
    json_t *config = NULL;

    if (dir >= 0 && file_read(dir, CONFIG_FILE, CONFIG_BYTES_MAX, &text) >= 0)
        config = json_loadb(text.data ? text.data : "", text.len, 0, NULL);
    if (json_is_object(config))
        return config;
    json_decref(config);
    return json_object();
}

static int save_config(const json_t *config)
{
    autofree char *text = json_dumps(config, JSON_INDENT(2));
    autofd int dir = open_config_dir(true);

    return dir < 0 ? dir : file_replace(dir, CONFIG_FILE, text, strlen(text), 0600);
}

static int configure(int argc, char **argv)
{
    autojson config = load_config();
    int r = 0;

    if (argc == 1) {
        output_json(json_pack("{s:s, s:b}", "api_base", config_text(config, "api_base"), "token",
                              *config_text(config, "token") != '\0'));
        return EXIT_SUCCESS;
    }
    if (argc != 3 || (strcmp(argv[1], "api_base") != 0 && strcmp(argv[1], "token") != 0)) {
        fprintf(stderr, "workspace-sandbox configure: give api_base or token, and a value\n");
        return EXIT_USAGE;
    }
    if (json_object_set_new(config, argv[1], json_string(argv[2])) < 0)
        r = -EILSEQ;
    if (r == 0)
        r = save_config(config);
    if (r < 0)
        fprintf(stderr, "workspace-sandbox configure: %s\n", strerror(-r));
    return r < 0 ? EXIT_OURS : EXIT_SUCCESS;
}

/* ---- the server ---- */

static const char *first_of(const char *const *names)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value)
            return value;
    }
    return NULL;
}

/* "http://localhost:15427/api/v1/" is a server's root followed by a path of our API. */
static void set_url(const char *base)
{
    autofree char *url = xdup(base);
    size_t len = strlen(url);

    while (len > 0 && url[len - 1] == '/')
        url[--len] = '\0';
    if (len > 7 && strcmp(url + len - 7, "/api/v1") == 0)
        url[len - 7] = '\0';
    setenv("AGENTFENSE_URL", url, 1);
}

static void choose_server(const char *flag)
{
    static const char *const bases[] = { "WORKSPACE_SANDBOX_API_BASE", "WORKSPACE_SANDBOX_API_URL", "API_BASE_URL",
                                         "VITE_API_BASE_URL", NULL };
    static const char *const ports[] = { "WORKSPACE_SANDBOX_API_PORT", "API_PORT", NULL };
    static const char *const timeouts[] = { "WORKSPACE_SANDBOX_HTTP_TIMEOUT", NULL };
    static const char *const tokens[] = { "WORKSPACE_SANDBOX_API_TOKEN", "VROOLI_API_TOKEN", NULL };
    autojson config = load_config();
    const char *base = flag ? flag : first_of(bases), *port = first_of(ports), *token = first_of(tokens);

    if (!base && *config_text(config, "api_base"))
        base = config_text(config, "api_base");
    if (base) {
        set_url(base);
    } else if (port) {
        autofree char *url = xprintf("http://localhost:%s", port);
        set_url(url);
    }
    if (!token && *config_text(config, "token"))
        token = config_text(config, "token");
    if (token)
        setenv("AGENTFENSE_TOKEN", token, 1);
    if (first_of(timeouts))
        setenv("AGENTFENSE_HTTP_TIMEOUT", first_of(timeouts), 1);
}

/* ---- verbs without an equivalent ---- */

static const struct option no_options[] = { API_LONG_OPTIONS };

static int run_workspace(struct api_call *call, struct err *err)
{
    automessage answer = NULL;
    int r = lookup_get_sandbox(call->client, call->words[0], &answer, err);
    const Sandbox__V1__Sandbox *sandbox = (void *) answer;

    if (r == 0 && !*sandbox->host_path)
        r = err_set(err, ERR_FAILED_PRECONDITION, -ENOENT,
                    "the host does not see the files of sandbox '%s': it does not run, or was made without --host-mount",
                    sandbox->id);
    if (r == 0)
        api_print(call, answer, sandbox->host_path);
    return r;
}

static int run_driver_info(struct api_call *call, struct err *err)
{
    Sandbox__V1__ListDriversRequest request = SANDBOX__V1__LIST_DRIVERS_REQUEST__INIT;
    automessage answer = NULL;
    int r = client_ask(call->client, "ListDrivers", &request.base, &answer, err);

    if (r == 0)
        api_print_json(answer);
    return r;
}

static int workspace(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "workspace",
        .help = "usage: workspace-sandbox workspace ID\n\nPrints the directory of the host that has the sandbox's files, if "
                "there is one.\n\n" API_OPTIONS_HELP,
        .options = no_options,
        .words_min = 1,
        .words_max = 1,
        .run = run_workspace,
    };

    return api_verb_run(&verb, argc, argv);
}

static int driver_info(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "driver-info",
        .help = "usage: workspace-sandbox driver-info\n\nPrints which driver keeps changes apart.\n\n" API_OPTIONS_HELP,
        .options = no_options,
        .run = run_driver_info,
    };

    return api_verb_run(&verb, argc, argv);
}

/* ---- translating the command line ---- */

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *verb; /* our verb */
    const char *more; /* an option to add to our verb; NULL: none */
};

static const struct command commands[] = {
    { "approve", cmd_approve, "approve", NULL },
    { "attach", cmd_attach, "attach", NULL },
    { "commit-pending", cmd_commit, "commit", NULL },
    { "configure", configure, "configure", NULL },
    { "conflicts", cmd_conflicts, "conflicts", NULL },
    { "create", cmd_create, "create", "--start" },
    { "delete", cmd_rm, "rm", NULL },
    { "diff", cmd_diff, "diff", NULL },
    { "discard", cmd_discard, "discard", NULL },
    { "driver-info", driver_info, "driver-info", NULL },
    { "exec", cmd_exec, "exec", NULL },
    { "gc", cmd_prune, "prune", NULL },
    { "gc-preview", cmd_prune, "prune", "--dry-run" },
    { "inspect", cmd_inspect, "inspect", NULL },
    { "kill", cmd_kill, "process kill", NULL },
    { "list", cmd_ls, "ls", NULL },
    { "logs", cmd_logs, "logs", NULL },
    { "pending", cmd_pending, "pending", NULL },
    { "processes", cmd_processes, "process list", NULL },
    { "provenance", cmd_provenance, "provenance", NULL },
    { "rebase", cmd_rebase, "rebase", NULL },
    { "reject", cmd_reject, "reject", NULL },
    { "restore", cmd_restore, "restore", NULL },
    { "run", cmd_exec, "exec", "--detach" },
    { "shell", cmd_shell, "shell", NULL },
    { "start", cmd_start, "start", NULL },
    { "status", cmd_status, "status", NULL },
    { "stop", cmd_stop, "stop", NULL },
    { "undo", cmd_undo, "undo", NULL },
    { "workspace", workspace, "workspace", NULL },
};

struct words {
    char **items; /* array owned; ended by NULL */
    int count;
    char *owned[4]; /* owned: the strings made here */
    int owned_count;
    const char *api_base;
};

static void add_made(struct words *words, char *text)
{
    if (words->owned_count < (int) ARRAY_LEN(words->owned))
        words->owned[words->owned_count++] = text;
    words->items[words->count++] = text;
}

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* Returns the value of "--name=value" or "--name value", or NULL if the word is another one. */
static const char *value_of(const char *name, char **argv, int *at)
{
    size_t len = strlen(name);

    if (strncmp(argv[*at], name, len) == 0 && argv[*at][len] == '=')
        return argv[*at] + len + 1;
    if (strcmp(argv[*at], name) == 0 && argv[*at + 1])
        return argv[++*at];
    return NULL;
}

/* Splits "-s=DIR" into "-s" and "DIR": our verbs would take "=DIR" as the value. Returns whether the word was such an option. */
static bool take_short(struct words *words, char *word)
{
    static const struct {
        const char *command, *letters;
    } known[] = { { "create", "spor" }, { "approve", "m" }, { "commit-pending", "m" } };

    if (words->count == 0 || word[0] != '-' || !word[1] || word[2] != '=')
        return false;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i].command, words->items[0]) != 0 || !strchr(known[i].letters, word[1]))
            continue;
        word[2] = '\0';
        words->items[words->count++] = word;
        words->items[words->count++] = word + 3;
        return true;
    }
    return false;
}

/* Translates global options and options with other names here. Returns whether the word was one. */
static bool take_word(struct words *words, char **argv, int *at)
{
    static char raw[] = "--raw", profile[] = "--profile=aware";
    const char *value = value_of("--api-base", argv, at);

    if (value) {
        words->api_base = value;
        return true;
    }
    if (strcmp(argv[*at], "--no-color") == 0 || strcmp(argv[*at], "--color") == 0) {
        bool is_wanted = argv[*at][2] != 'n';

        setenv(is_wanted ? "CLICOLOR_FORCE" : "NO_COLOR", "1", 1);
        unsetenv(is_wanted ? "NO_COLOR" : "CLICOLOR_FORCE");
        return true;
    }
    if (strcmp(argv[*at], "--auto-start") == 0)
        return true; /* our verbs start a private server if none runs */
    if (strcmp(argv[*at], "--vrooli-aware") == 0) {
        words->items[words->count++] = profile;
        return true;
    }
    if (strcmp(argv[*at], raw) == 0 && isatty(STDOUT_FILENO))
        return true; /* text is our default */
    value = value_of("--timeout", argv, at);
    if (value) {
        add_made(words, xprintf("--timeout=%s%s", value, is_number(value) ? "s" : ""));
        return true;
    }
    return false;
}

static void translate(struct words *words, int argc, char **argv)
{
    bool is_command = false;

    words->items = xalloc((2 * (size_t) argc + 3) * sizeof(*words->items)); /* one word may become two */
    for (int i = 1; i < argc; i++) {
        is_command |= strcmp(argv[i], "--") == 0;
        if (is_command || (!take_short(words, argv[i]) && !take_word(words, argv, &i)))
            words->items[words->count++] = argv[i];
    }
}

static int refuse_command(const char *name)
{
    const char *names[ARRAY_LEN(commands) + 1] = { NULL };

    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        names[i] = commands[i].name;
    suggest_refuse("workspace-sandbox", "command", name, names);
    return EXIT_USAGE;
}

static int run_command(struct words *words, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, name) != 0)
            continue;
        words->items[0] = (char *) commands[i].verb;
        output_call_verb(commands[i].verb, "workspace-sandbox", commands[i].name);
        if (commands[i].more) {
            memmove(words->items + 2, words->items + 1, (size_t) words->count * sizeof(*words->items));
            words->items[1] = (char *) commands[i].more;
            words->count++;
        }
        return commands[i].run(words->count, words->items);
    }
    return refuse_command(name);
}

int cmd_workspace_sandbox(int argc, char **argv)
{
    struct words words = { 0 };
    const char *name;
    int code = EXIT_SUCCESS;

    translate(&words, argc, argv);
    name = words.count > 0 ? words.items[0] : "";
    choose_server(words.api_base);
    if (strcmp(name, "help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0) {
        fputs(help, stdout);
    } else if (strcmp(name, "version") == 0 || strcmp(name, "-v") == 0 || strcmp(name, "--version") == 0) {
        printf("workspace-sandbox %s (agentfense)\n", AGENTFENSE_VERSION);
    } else if (!*name) {
        fputs(help, stderr);
        code = EXIT_USAGE;
    } else {
        code = run_command(&words, name);
    }
    for (int i = 0; i < words.owned_count; i++)
        free(words.owned[i]);
    free(words.items);
    return code;
}
