#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defaults.h"
#include "base/mem.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/cpus_text.h"
#include "cli/lookup.h"
#include "cli/rule_options.h"
#include "cli/setting_options.h"
#include "cli/start_watch.h"
#include "wire/runtime_type.h"
#include <sandbox/v1/codebase.pb-c.h>

static const char help[] =
    "usage: agentfense create [options] DIR\n"
    "       agentfense create [options] --codebase CODEBASE\n\n"
    "Makes a sandbox over a directory or over a codebase, and prints its id. 'agentfense start' starts it. Over a directory "
    "the\n"
    "changes wait for 'agentfense approve'; over a codebase they are synced into it after every "
    "command.\n\n" POLICY_OPTIONS_HELP "                         without any of these: --preset " DEFAULT_PRESET "\n"
    "  --codebase CODEBASE    over this codebase\n"
    "  --start                start it, too\n"
    "  --name NAME            a name to call it by; no two sandboxes of an owner have the same\n"
    "  --label KEY=VALUE      a label; may be given again\n"
    "  --tag TAG              a tag; may be given again\n"
    "  -e, --env NAME[=VALUE] a variable for every command in it; without a value, ours\n"
    "  --env-file FILE        the variables of a file of NAME=VALUE lines\n"
    "  -m, --memory SIZE      most memory (512M, 2G)\n"
    "  --cpus N               most processors it may use (0.5, 2)\n"
    "  --cpu-shares N         its weight against others\n"
    "  --pids N               most processes at once\n"
    "  --disk SIZE            most bytes of changes\n"
    "  --files N              most files and directories among the changes\n"
    "  --net none|host        network; in a container also bridge\n"
    "  --runtime bwrap|docker confined by bubblewrap or in a container; without it, as the server is configured\n"
    "  --image IMAGE          of the container; means --runtime docker\n"
    "  --expires SPAN         stop it after this time (2h)\n"
    "  --driver NAME          how changes are kept apart: fence, overlayfs or copy\n"
    "  --profile NAME         how its commands are confined, instead of --net: full, aware, agent\n"
    "  --behavior FILE        a JSON object: lifecycle, acceptance, hooks (docs/workspace.md)\n"
    "  --key KEY              a second create with the same key and options answers with the first sandbox\n"
    "Over a codebase:\n"
    "  --no-sync              changes stay in the sandbox and wait for 'agentfense approve'\n"
    "  --sync                 changes are synced, whatever the server's default is\n"
    "Over a directory:\n"
    "  --project DIR          the project that the directory is part of; without: the directory itself\n"
    "  --reserve PATH         a path that no other sandbox may reserve, instead of the whole directory; may be given again\n"
    "  --no-lock              reserve nothing\n"
    "  --owner NAME           whose sandbox it is; --owner-type agent|user|task|system\n"
    "  --host-mount           mount its files on the host as well\n"
    "  --restart              when a server starts, it starts the sandbox again if that ended meanwhile\n" API_OPTIONS_HELP;

enum {
    OPT_START = 1,
    OPT_NAME,
    OPT_LABEL,
    OPT_ENV_FILE,
    OPT_CPUS,
    OPT_CPU_SHARES,
    OPT_PIDS,
    OPT_DISK,
    OPT_FILES,
    OPT_NET,
    OPT_RUNTIME,
    OPT_IMAGE,
    OPT_EXPIRES,
    OPT_NO_SYNC,
    OPT_SYNC,
    OPT_CODEBASE,
    OPT_NO_LOCK,
    OPT_OWNER_TYPE,
    OPT_DRIVER,
    OPT_KEY,
    OPT_RESERVED_PATHS,
    OPT_PROFILE,
    OPT_BEHAVIOR,
    OPT_TAG,
    OPT_HOST_MOUNT,
    OPT_RESTART,
};

static const struct option options[] = {
    POLICY_LONG_OPTIONS,
    { "start", no_argument, NULL, OPT_START },
    { "name", required_argument, NULL, OPT_NAME },
    { "label", required_argument, NULL, OPT_LABEL },
    { "env", required_argument, NULL, 'e' },
    { "env-file", required_argument, NULL, OPT_ENV_FILE },
    { "memory", required_argument, NULL, 'm' },
    { "cpus", required_argument, NULL, OPT_CPUS },
    { "cpu-shares", required_argument, NULL, OPT_CPU_SHARES },
    { "pids", required_argument, NULL, OPT_PIDS },
    { "disk", required_argument, NULL, OPT_DISK },
    { "files", required_argument, NULL, OPT_FILES },
    { "net", required_argument, NULL, OPT_NET },
    { "runtime", required_argument, NULL, OPT_RUNTIME },
    { "image", required_argument, NULL, OPT_IMAGE },
    { "expires", required_argument, NULL, OPT_EXPIRES },
    { "no-sync", no_argument, NULL, OPT_NO_SYNC },
    { "sync", no_argument, NULL, OPT_SYNC },
    { "codebase", required_argument, NULL, OPT_CODEBASE },
    { "scope", required_argument, NULL, 's' },
    { "project", required_argument, NULL, 'p' },
    { "reserve", required_argument, NULL, 'r' },
    { "reserved", required_argument, NULL, 'r' },
    { "reserved-paths", required_argument, NULL, OPT_RESERVED_PATHS },
    { "owner", required_argument, NULL, 'o' },
    { "owner-type", required_argument, NULL, OPT_OWNER_TYPE },
    { "no-lock", no_argument, NULL, OPT_NO_LOCK },
    { "driver", required_argument, NULL, OPT_DRIVER },
    { "key", required_argument, NULL, OPT_KEY },
    { "profile", required_argument, NULL, OPT_PROFILE },
    { "behavior", required_argument, NULL, OPT_BEHAVIOR },
    { "tag", required_argument, NULL, OPT_TAG },
    { "host-mount", no_argument, NULL, OPT_HOST_MOUNT },
    { "restart", no_argument, NULL, OPT_RESTART },
    API_LONG_OPTIONS,
};

/* A repeated field of a request. */
struct word_list {
    char **items; /* owned, and so are the strings */
    size_t count, cap;
};

struct create_options {
    struct policy_options policy;
    struct rule_messages rules;
    struct entry_list labels, env;
    Sandbox__V1__ResourceLimits limits;
    Google__Protobuf__Duration expires;
    bool has_limits, has_expires, starts;
    const char *name, *net, *image, *key, *driver, *profile;
    const char *codebase, *directory; /* as the user typed them; one is set */
    const char *project, *owner, *owner_type;
    struct word_list reserved, tags;
    char *behavior; /* owned: a JSON object */
    bool no_lock, host_mount, restarts;
    const struct runtime_type *runtime; /* NULL: the server's default */
    Sandbox__V1__SyncMode sync;
};

static void word_list_add(struct word_list *list, const char *word, size_t len)
{
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] = xdupn(word, len);
}

static void word_list_done(struct word_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
}

static int create_take_cpus(const char *text, int64_t *ret, struct err *err)
{
    uint32_t quota_us = 0;
    int r = cpus_text_parse(text, &quota_us, err);

    *ret = quota_us;
    return r;
}

static int create_take_limit(struct create_options *o, int option, const char *argument, struct err *err)
{
    o->has_limits = true;
    switch (option) {
    case 'm':
        return parse_size_above_0("memory", argument, &o->limits.memory_bytes, err);
    case OPT_CPUS:
        return create_take_cpus(argument, &o->limits.cpu_quota, err);
    case OPT_CPU_SHARES:
        return parse_number("--cpu-shares", argument, 2, 262144, &o->limits.cpu_shares, err);
    case OPT_PIDS:
        return parse_number("--pids", argument, 1, 4194304, &o->limits.pids_limit, err);
    case OPT_FILES:
        return parse_number("--files", argument, 1, UINT32_MAX, &o->limits.disk_inodes, err);
    default:
        return parse_size_above_0("disk", argument, &o->limits.disk_bytes, err);
    }
}

/* Adds a path, or with `is_split` each path of the list "a,b". */
static int create_take_reserved(struct create_options *o, const char *list, bool is_split, struct err *err)
{
    for (const char *end; *list; list = *end ? end + 1 : end) {
        end = is_split ? strchrnul(list, ',') : list + strlen(list);
        if (end == list)
            return err_invalid(err, "--reserve: an empty path");
        word_list_add(&o->reserved, list, (size_t) (end - list));
    }
    return 0;
}

static int create_take_behavior(struct create_options *o, const char *path, struct err *err)
{
    json_error_t where;
    json_t *value = json_load_file(path, JSON_REJECT_DUPLICATES, &where);

    if (!value)
        return err_invalid(err, "--behavior '%s': %s (line %d)", path, where.text, where.line);
    free(o->behavior);
    o->behavior = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(value);
    return 0;
}

static int create_take_base_option(struct create_options *o, int option, const char *argument, struct err *err)
{
    switch (option) {
    case OPT_CODEBASE:
        o->codebase = argument;
        return 0;
    case 's': /* another spelling of a directory; such a sandbox starts at once, and again with the server */
        if (!*argument)
            return err_invalid(err, "--scope is empty; '.' is where you are");
        o->directory = argument;
        o->starts = o->restarts = true;
        return 0;
    case 'p':
        o->project = argument;
        return 0;
    case 'r':
    case OPT_RESERVED_PATHS:
        return create_take_reserved(o, argument, option == OPT_RESERVED_PATHS, err);
    case 'o':
        o->owner = argument;
        return 0;
    case OPT_OWNER_TYPE:
        o->owner_type = argument;
        return 0;
    case OPT_NO_LOCK:
        o->no_lock = true;
        return 0;
    case OPT_RESTART:
        o->restarts = true;
        return 0;
    default: /* OPT_HOST_MOUNT */
        o->host_mount = true;
        return 0;
    }
}

static int create_take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct create_options *o = call->own;
    int r;

    if (policy_options_take(&o->policy, option, argument))
        return 0;
    switch (option) {
    case OPT_START:
        o->starts = true;
        return 0;
    case OPT_NAME:
        if (!*argument)
            return err_invalid(err, "--name is empty");
        o->name = argument;
        return 0;
    case OPT_TAG:
        if (!*argument)
            return err_invalid(err, "--tag is empty");
        word_list_add(&o->tags, argument, strlen(argument));
        return 0;
    case OPT_KEY:
        o->key = argument;
        return 0;
    case OPT_DRIVER:
        o->driver = argument;
        return 0;
    case OPT_PROFILE:
        o->profile = argument;
        return 0;
    case OPT_BEHAVIOR:
        return create_take_behavior(o, argument, err);
    case OPT_CODEBASE:
    case OPT_RESERVED_PATHS:
    case OPT_OWNER_TYPE:
    case OPT_NO_LOCK:
    case OPT_HOST_MOUNT:
    case OPT_RESTART:
    case 's':
    case 'p':
    case 'r':
    case 'o':
        return create_take_base_option(o, option, argument, err);
    case OPT_LABEL:
        return entry_list_add_pair(&o->labels, "label", argument, err);
    case 'e':
        return entry_list_add_env(&o->env, argument, err);
    case OPT_ENV_FILE:
        return entry_list_add_env_file(&o->env, argument, err);
    case OPT_NET:
        o->net = argument;
        return strcmp(argument, "none") == 0 || strcmp(argument, "host") == 0 || strcmp(argument, "bridge") == 0
                   ? 0
                   : err_invalid(err, "--net '%s' is none of none, host and bridge", argument);
    case OPT_RUNTIME:
        r = runtime_type_parse(argument, &o->runtime, err);
        return r < 0 ? err_wrap(err, r, "--runtime") : 0;
    case OPT_IMAGE:
        o->image = argument;
        return 0;
    case OPT_EXPIRES:
        o->has_expires = true;
        return parse_span("expires", argument, &o->expires, err);
    case OPT_NO_SYNC:
    case OPT_SYNC:
        o->sync = option == OPT_SYNC ? SANDBOX__V1__SYNC_MODE__SYNC_MODE_ON : SANDBOX__V1__SYNC_MODE__SYNC_MODE_OFF;
        return 0;
    default:
        return create_take_limit(o, option, argument, err);
    }
}

/* A word names a directory if one exists or the word has a slash, and otherwise a codebase. */
static int create_check_base(struct api_call *call, struct create_options *o, struct err *err)
{
    const char *word = call->word_count > 0 ? call->words[0] : NULL;
    struct stat st;

    if ((word != NULL) + (o->codebase != NULL) + (o->directory != NULL) > 1)
        return err_invalid(err, "a sandbox is over one directory or one codebase, and these are several");
    if (word && (strchr(word, '/') || (stat(word, &st) == 0 && S_ISDIR(st.st_mode))))
        o->directory = word;
    else if (word)
        o->codebase = word;
    if (!o->directory && !o->codebase && !o->project)
        return err_invalid(err, "DIR is missing; usage: agentfense create [options] DIR, or --codebase CODEBASE");
    if (o->codebase && (o->project || o->reserved.count > 0 || o->no_lock))
        return err_invalid(err, "--project, --reserve and --no-lock are for sandboxes over a directory");
    if (!o->codebase && o->sync)
        return err_invalid(err, "--sync and --no-sync are for sandboxes over a codebase: over a directory changes always wait "
                                "for 'agentfense approve'");
    return 0;
}

static int create_check(struct api_call *call, struct err *err)
{
    struct create_options *o = call->own;
    bool has_rules = o->policy.preset || o->policy.file_count > 0 || o->policy.short_count > 0;
    int r = create_check_base(call, o, err);

    if (r < 0)
        return r;
    /* Over a directory the server has the same default, unless the driver cannot enforce rules. */
    if (!has_rules && o->codebase)
        o->policy.preset = DEFAULT_PRESET;
    if (o->image && o->runtime && !o->runtime->needs_image)
        return err_invalid(err, "--image is for containers: --runtime docker");
    if (o->image && !o->runtime)
        o->runtime = runtime_type_default(true);
    return has_rules || o->codebase ? rule_messages_load(&o->policy, &o->rules, err) : 0;
}

static char *create_text(const char *text)
{
    static char empty[] = "";

    return text ? (char *) text : empty;
}

static void create_fill(struct create_options *o, Sandbox__V1__CreateSandboxRequest *request)
{
    request->name = create_text(o->name);
    request->preset = create_text(o->policy.preset);
    request->n_permissions = o->rules.count;
    request->permissions = o->rules.items;
    request->n_labels = o->labels.count;
    request->labels = entry_list_as(&o->labels, Sandbox__V1__CreateSandboxRequest__LabelsEntry);
    request->n_tags = o->tags.count;
    request->tags = o->tags.items;
    request->n_env = o->env.count;
    request->env = entry_list_as(&o->env, Sandbox__V1__CreateSandboxRequest__EnvEntry);
    request->expires_in = o->has_expires ? &o->expires : NULL;
    request->network = create_text(o->net);
    request->sync_on_completion = o->sync;
    request->runtime = o->runtime ? (Sandbox__V1__RuntimeType) o->runtime->api_number : 0;
    request->image = create_text(o->image);
    request->driver = create_text(o->driver);
    request->profile = create_text(o->profile);
    request->behavior = create_text(o->behavior);
    request->idempotency_key = create_text(o->key);
    request->n_reserved_paths = o->reserved.count;
    request->reserved_paths = o->reserved.items;
    request->no_lock = o->no_lock;
    request->restarts = o->restarts;
    request->creator = create_text(o->owner);
    request->creator_type = create_text(o->owner_type);
    if (o->host_mount)
        request->host_mount = SANDBOX__V1__HOST_MOUNT_MODE__HOST_MOUNT_MODE_ON;
    if (o->has_limits) {
        Sandbox__V1__ResourceLimits given = o->limits;
        sandbox__v1__resource_limits__init(&o->limits);
        given.base = o->limits.base;
        o->limits = given;
        request->resources = &o->limits;
    }
}

/* Adds advice to the error for a path that another sandbox has reserved. */
static int create_explain(int r, struct err *err)
{
    autofree char *text = xdup(err->text);

    if (err->code != ERR_FAILED_PRECONDITION || !strstr(text, "has reserved"))
        return r;
    return err_set(err, err->code, r,
                   "%s; approve, discard or remove that one, reserve something else (--reserve), or nothing (--no-lock)", text);
}

static int create_run(struct api_call *call, struct err *err)
{
    struct create_options *o = call->own;
    Sandbox__V1__CreateSandboxRequest request = SANDBOX__V1__CREATE_SANDBOX_REQUEST__INIT;
    const char *directory = o->directory ? o->directory : o->project;
    autofree char *codebase = NULL, *scope = o->codebase ? NULL : api_absolute_path(directory);
    autofree char *project = o->codebase || !o->project ? NULL : api_absolute_path(o->project);
    automessage made = NULL;
    automessage started = NULL;
    int r = o->codebase ? lookup_codebase(call->client, o->codebase, &codebase, err) : 0;

    if (r == -ENOENT && call->word_count > 0)
        return err_set(err, ERR_NOT_FOUND, r,
                       "'%s' is neither a directory here nor a codebase; 'agentfense codebase ls' lists those", o->codebase);
    if (r < 0)
        return r;
    create_fill(o, &request);
    request.codebase_id = create_text(codebase);
    request.directory = create_text(scope);
    /* Without --project the directory is its own project, whatever the server's default project is. */
    request.project_root = create_text(project ? project : scope);
    r = client_ask(call->client, "CreateSandbox", &request.base, &made, err);
    if (r < 0)
        return create_explain(r, err);
    const Sandbox__V1__Sandbox *sandbox = (void *) made;
    for (size_t i = 0; i < sandbox->n_warnings && !call->options.is_quiet; i++)
        fprintf(stderr, "agentfense create: %s\n", sandbox->warnings[i]);
    if (o->starts)
        r = start_watched(call, sandbox->id, &started, err);
    if (r < 0)
        return err_wrap(err, r, "sandbox %s was made, but does not start", sandbox->id);
    api_print(call, started ? started : made, sandbox->id);
    return 0;
}

static void create_done(struct api_call *call)
{
    struct create_options *o = call->own;

    policy_options_done(&o->policy);
    rule_messages_done(&o->rules);
    entry_list_done(&o->labels);
    entry_list_done(&o->env);
    word_list_done(&o->reserved);
    word_list_done(&o->tags);
    free(o->behavior);
}

int cmd_create(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "create",
        .help = help,
        .letters = "e:m:s:p:r:o:",
        .options = options,
        .words_max = 1,
        .own_size = sizeof(struct create_options),
        .take = create_take,
        .check = create_check,
        .run = create_run,
        .done = create_done,
    };

    return api_verb_run(&verb, argc, argv);
}
